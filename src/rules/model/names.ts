/** Names of builds and servers, ids of servers and sessions. Pure. */

/** A server's name is its build's name plus a dash and five characters, and must not exceed 63 characters. */
export const maxBuildNameLength = 57
export const maxNamespaceLength = 63

/** Matches an RFC 1123 label of any length. */
export const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

export function isNamespace(name: unknown): name is string {
  return typeof name === 'string' && name.length <= maxNamespaceLength && labelPattern.test(name)
}

const suffixAlphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
export const suffixLength = 5

/** Returns `<build>-<suffix>`. The suffix is `suffixLength` characters from [a-z0-9], each chosen by one random byte. */
export function serverName(build: string, random: Uint8Array): string {
  let suffix = ''
  for (let i = 0; i < suffixLength; i++) suffix += suffixAlphabet[(random[i] ?? 0) % suffixAlphabet.length]
  return `${build}-${suffix}`
}

/** Combines a server's name and secret token into the id that identifies and authenticates it in the path of its heartbeats. */
export function sessionHostId(name: string, token: string): string {
  return `${name}.${token}`
}

/** Splits a `sessionHostId` at the first dot; names contain none. */
export function readSessionHostId(id: string): { readonly name: string; readonly token: string } | undefined {
  const dot = id.indexOf('.')
  return dot <= 0 ? undefined : { name: id.slice(0, dot), token: id.slice(dot + 1) }
}

/**
 * Returns a function that masks the secret of this server in a line of its log. Several GSDK clients print their sessionHostId.
 * The line may be cut off at either end: a game is still writing it, or the start of a long line is missing. Without a `token`,
 * which is known only while the server's record exists, only a sessionHostId is recognized, and only if it is not cut off at its
 * start.
 */
export function secretMask(name: string, token: string | undefined): (line: string) => string {
  const id = new RegExp(`(${escaped(name)}\\.)(?:[0-9a-f]{32}|[0-9a-f]+$)`, 'g')
  const cutOff = token ? cutOffSecret(token) : undefined
  return (line) => {
    const masked = line.replace(id, '$1***')
    if (!token) return masked
    const whole = masked.replaceAll(token, '***')
    return cutOff ? whole.replace(cutOff, '***') : whole
  }
}

/** Fewer characters of a secret are of no use, and may be part of any text. */
const minSecretPart = 8

/** Matches the end of the secret at the start of a line, and the start of the secret at the end of a line. */
function cutOffSecret(token: string): RegExp | undefined {
  if (token.length <= minSecretPart) return undefined
  const lengths = Array.from({ length: token.length - minSecretPart }, (_, i) => token.length - 1 - i)
  const ends = lengths.map((length) => escaped(token.slice(-length)))
  const starts = lengths.map((length) => escaped(token.slice(0, length)))
  return new RegExp(`^(?:${ends.join('|')})|(?:${starts.join('|')})$`, 'g')
}

function escaped(text: string): string {
  return text.replace(/[^a-zA-Z0-9]/g, '\\$&')
}

export const guidPattern = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'

const guid = new RegExp(guidPattern)
const guidLength = 36

export function isGuid(text: string): boolean {
  return text.length === guidLength && guid.test(text)
}

/** A GUID of 16 random bytes, which every host accepts as a sessionID. */
export function guidOf(bytes: Uint8Array): string {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}

/**
 * Returns the same key for ids of the same session. GUIDs that differ only in case are the same. All other ids are compared
 * exactly: neither case nor Unicode normalization is ignored.
 */
export function sessionKey(sessionID: string): string {
  if (sessionID.length !== guidLength) return sessionID
  const lower = sessionID.toLowerCase()
  // This is on the hot path of allocations, and most GUIDs are in lower case already.
  return lower !== sessionID && guid.test(sessionID) ? lower : sessionID
}
