/**
 * Identifies what a server was started with. Specs that would start the same game server have the same hash. So after a
 * rollback to an earlier template, servers that still run it count as current again. Pure.
 */
import type { BuildSpec } from '../model/resources.js'

/** Returns a hash of the template, ports and metadata, as 14 hex digits. */
export function templateHash(spec: Pick<BuildSpec, 'template' | 'portsToExpose' | 'buildMetadata'>): string {
  return hash(canonical([spec.template, spec.portsToExpose, spec.buildMetadata ?? {}]))
}

/** Serializes a value as JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(',')}}`
  }
  return JSON.stringify(value) ?? 'null'
}

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
