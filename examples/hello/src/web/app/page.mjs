export function page({ greeter, install, version, fingerprint, startedAt }) {
  const title = greeter.answered ? `${greeter.greeting}!` : 'Hello?'
  const lead = greeter.answered
    ? 'This page runs inside the customer’s own install. Nobody outside can reach in; a job put it here.'
    : 'This page runs inside the customer’s own install, but its greeter does not answer.'
  const answer = greeter.answered
    ? `<span class="good">answered</span> in ${escape(greeter.milliseconds)} ms, version ${escape(greeter.version)}`
    : `<span class="bad">no answer</span>: ${escape(greeter.reason)}`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>
  :root { color-scheme: light dark; --ink: #1d2430; --soft: #5d6778; --paper: #f6f7f9; --card: #fff;
    --line: #e2e6ec; --good: #12704a; --bad: #b3261e }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #e8ebf0; --soft: #9aa5b5; --paper: #12161d; --card: #1a2029; --line: #2b3441;
      --good: #5fd39f; --bad: #ff8a80 }
  }
  * { box-sizing: border-box }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
    background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
  main { width: min(36rem, 100%); padding: clamp(1.5rem, 5vw, 2.75rem); background: var(--card);
    border: 1px solid var(--line); border-radius: 14px }
  h1 { margin: 0 0 .4rem; font-size: clamp(2.2rem, 9vw, 3.2rem); line-height: 1.1; letter-spacing: -.02em }
  p { margin: 0 0 1.6rem; color: var(--soft) }
  dl { margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.4rem;
    padding-top: 1.3rem; border-top: 1px solid var(--line) }
  dt { color: var(--soft) }
  dd { margin: 0; overflow-wrap: anywhere }
  code { font: .92em ui-monospace, monospace }
  .good { color: var(--good); font-weight: 600 }
  .bad { color: var(--bad); font-weight: 600 }
</style>
</head>
<body>
<main>
  <h1>${escape(title)}</h1>
  <p>${lead}</p>
  <dl>
    <dt>Install</dt><dd><code>${escape(install)}</code></dd>
    <dt>Version</dt><dd>${escape(version)} <code>(${escape(fingerprint)})</code></dd>
    <dt>Greeter</dt><dd>${answer}</dd>
    <dt>Running since</dt><dd><time datetime="${startedAt.toISOString()}">${startedAt.toUTCString()}</time></dd>
  </dl>
</main>
</body>
</html>
`
}

function escape(value) {
  const names = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
  return String(value).replace(/[&<>"']/g, (character) => names[character])
}
