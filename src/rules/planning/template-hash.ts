/**
 * Identifies what a server was started with. Specs that would start the same game server have the same hash. So after a
 * rollback to an earlier template, servers that still run it count as current again. Pure.
 */
import { canonical } from '../model/canonical.js'
import type { BuildSpec } from '../model/resources.js'

/** Returns a hash of the template, ports, metadata, and of the counters and lists that servers begin with, as 14 hex digits. */
export function templateHash({ template, portsToExpose, buildMetadata = {}, counters, lists }: HashedSpec): string {
  const parts: unknown[] = [template, portsToExpose, buildMetadata]
  if (Object.keys({ ...counters, ...lists }).length > 0) parts.push(counters ?? {}, lists ?? {})
  return hash(canonical(parts))
}

type HashedSpec = Pick<BuildSpec, 'template' | 'portsToExpose' | 'buildMetadata' | 'counters' | 'lists'>

/** The cyrb53 hash. Its 53 bits are plenty for the few templates that one build has over time. */
function hash(text: string): string {
  let a = 0xdeadbeef
  let b = 0x41c6ce57
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 2_654_435_761)
    b = Math.imul(b ^ unit, 1_597_334_677)
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909)
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909)
  return (4_294_967_296 * (2_097_151 & b) + (a >>> 0)).toString(16).padStart(14, '0')
}
