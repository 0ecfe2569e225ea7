/** What counts as one client address. Pure. */
import { isIPv6 } from 'node:net'

/**
 * Returns an IPv4 address unchanged, and the first 64 bits of an IPv6 address: a single client usually has all addresses
 * that begin with them. An IPv4 address in IPv6 form is an IPv4 address.
 */
export function clientNetwork(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const bare = address.split('%', 1)[0] ?? ''
  if (!isIPv6(bare)) return address
  const [head = '', tail] = bare.split('::')
  const first = groupsOf(head)
  const last = groupsOf(tail ?? '')
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0')
  const groups = tail === undefined ? first : [...first, ...zeros, ...last]
  const network = groups.slice(0, 4).map((group) => parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

/** An IPv4 address at the end counts as two groups. Their values do not matter: they are outside the first 64 bits. */
function groupsOf(part: string): readonly string[] {
  return part === '' ? [] : part.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : [group]))
}
