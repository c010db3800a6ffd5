const TOKEN = /^[A-Za-z0-9_-]{20,200}$/

/** Pure: the token of a call, as bearer or as the password of basic authentication, which is all that Terraform knows. */
export function tokenOf(authorization: string | undefined): string | undefined {
  const [scheme = '', value = ''] = (authorization ?? '').split(' ', 2)
  const token = scheme.toLowerCase() === 'basic' ? passwordOf(value) : scheme === 'Bearer' ? value : ''
  return TOKEN.test(token) ? token : undefined
}

function passwordOf(credentials: string): string {
  const text = Buffer.from(credentials, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon < 0 ? '' : text.slice(colon + 1)
}
