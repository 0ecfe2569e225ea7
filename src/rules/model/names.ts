/** Names of builds and servers. Pure. */

/** A server's name adds a dash and five characters to its build's, and must fit into 63. */
export const maxBuildNameLength = 57
export const maxNamespaceLength = 63

/** An RFC 1123 label of any length. */
export const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** An RFC 1123 label of at most `maxBuildNameLength` characters. */
export function isBuildName(name: unknown): name is string {
  return typeof name === 'string' && name.length <= maxBuildNameLength && labelPattern.test(name)
}

export function isNamespace(name: unknown): name is string {
  return typeof name === 'string' && name.length <= maxNamespaceLength && labelPattern.test(name)
}

const suffixAlphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
export const suffixLength = 5

/** `<build>-<suffix>`, where the suffix is `suffixLength` characters of [a-z0-9] made from as many random bytes. */
export function serverName(build: string, random: Uint8Array): string {
  let suffix = ''
  for (let i = 0; i < suffixLength; i++) suffix += suffixAlphabet[(random[i] ?? 0) % suffixAlphabet.length]
  return `${build}-${suffix}`
}

/** Identifies and authenticates a server in the path of its heartbeats: its name and its secret token. */
export function sessionHostId(name: string, token: string): string {
  return `${name}.${token}`
}

/** Splits a `sessionHostId` at the first dot; names contain none. */
export function readSessionHostId(id: string): { readonly name: string; readonly token: string } | undefined {
  const dot = id.indexOf('.')
  return dot <= 0 ? undefined : { name: id.slice(0, dot), token: id.slice(dot + 1) }
}
