/** Names of builds and servers. Pure. */

/** A server's name is its build's name plus a dash and five characters, and must not exceed 63 characters. */
export const maxBuildNameLength = 57
export const maxNamespaceLength = 63

/** Matches an RFC 1123 label of any length. */
export const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** True for an RFC 1123 label of at most `maxBuildNameLength` characters. */
export function isBuildName(name: unknown): name is string {
  return typeof name === 'string' && name.length <= maxBuildNameLength && labelPattern.test(name)
}

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
