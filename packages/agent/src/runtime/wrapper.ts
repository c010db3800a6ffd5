/** Processes that the wrapper needs besides the job's own. */
export const WRAPPER_PIDS = 8

/** What one runtime's wrapper does in its own way: places and pieces of shell. */
export interface WrapperParts {
  log: string
  /** Files that each word to the agent is appended to. */
  status: string[]
  /** Written beside SIGTERM: reason and grace in seconds. */
  stop: string
  /** After the time limit, time limit plus grace, and grace: takes its arguments and sets the environment right. */
  settings: string
  /** In the job's folder: places its files; may call `tenon_refuse`. */
  files: string
}

/**
 * The first process of a job's container, in plain POSIX shell, so that a job needs no agent to end well: it writes
 * the log to a file of exact bytes (engines keep lines), hands SIGTERM on to the program alone, holds the time limit
 * and the grace, and says how it ended. Its end takes every process of the container with it.
 * It must be process 1: its `kill -1` reaches everything else that it can see.
 *
 * The clocks come first: a program that takes every process at once must not leave none for them. The trap comes after
 * the fork: a shell that was forked with a trap and did not yet exec would swallow the signal. So the clock of the time
 * limit strikes twice, should the first stroke come before the trap.
 * Limits of the shell and not of the engine's spec: Podman adds some of its own there that a host may not allow.
 * A SIGTERM before the trap is lost (this is process 1), so the file that comes with it is looked at once after.
 */
export function makeWrapper(parts: WrapperParts): string {
  const say = parts.status.map((file) => `echo "$1" >>${file};`).join(' ')
  return `
umask 077
ulimit -c 0
ulimit -n 8192 2>/dev/null
exec >>${parts.log} 2>&1 </dev/null
tenon_limit=$1 tenon_end=$2 tenon_grace=$3
shift 3
${parts.settings.trim()}
tenon_say() { ${say} }
tenon_refuse() { tenon_say "refused $1"; exit 127; }
[ $$ = 1 ] || tenon_refuse "The engine gives jobs no process namespace of their own; its configuration must not change that."
cd "$HOME" || tenon_refuse "The folder of the job cannot be entered."
${parts.files.trim()}
[ -d tmp ] || mkdir tmp
case "$1" in
*/*) [ -f "$1" ] && [ -x "$1" ] ;;
*) command -v "$1" >/dev/null ;;
esac || tenon_refuse "The program $1 is not in the image or not executable."
unset PWD OLDPWD
tenon_cause=none tenon_again= tenon_oom=0
tenon_say ready

(sleep "$tenon_limit" && kill -USR1 1 && sleep 1 && kill -USR1 1) &
(sleep "$tenon_end" && kill -KILL -1) &
(exec "$@") &
tenon_main=$!
tenon_stop() {
  tenon_again=1
  [ "$tenon_cause" = none ] || return 0
  tenon_cause=$1
  kill -TERM "$tenon_main" 2>/dev/null
  [ "$1" = stopped ] || return 0
  [ -s ${parts.stop} ] && read -r tenon_why tenon_grace <${parts.stop}
  (sleep "$tenon_grace" && kill -KILL -1) &
}
trap 'tenon_stop timeout' USR1
trap 'tenon_stop stopped' TERM
[ -s ${parts.stop} ] && tenon_stop stopped

wait "$tenon_main"; tenon_code=$?
while [ "$tenon_again" ]; do
  tenon_again=
  wait "$tenon_main"; tenon_last=$?
  [ "$tenon_last" = 127 ] || tenon_code=$tenon_last
done
for tenon_file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r "$tenon_file" ] || continue
  while read -r tenon_key tenon_value; do
    [ "$tenon_key" = oom_kill ] && tenon_oom=$tenon_value
  done <"$tenon_file"
done
tenon_say "ended $tenon_cause $tenon_oom"
exit "$tenon_code"
`
}

/** What the wrapper wrote: `ready` or `refused <why>` first, `ended <cause> <processes killed for memory>` last. */
export interface WrapperStatus {
  refused: string | undefined
  isReady: boolean
  ended: { cause: 'none' | 'timeout' | 'stopped'; oomKills: number } | undefined
}

export function parseStatus(text: string): WrapperStatus {
  const lines = text.split('\n').slice(0, -1)
  const [first = ''] = lines
  const ended = lines.findLast((line) => line.startsWith('ended '))?.split(' ')
  const cause = ended?.[1]
  return {
    refused: first.startsWith('refused ') ? first.slice('refused '.length) : undefined,
    isReady: first === 'ready',
    ended: ended && {
      cause: cause === 'timeout' || cause === 'stopped' ? cause : 'none',
      oomKills: Number(ended[2]) || 0,
    },
  }
}
