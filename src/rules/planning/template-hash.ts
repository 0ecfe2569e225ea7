/**
 * Tells whether a server runs what its build now says. Pure. Two specs that make the same game server have the same hash,
 * so going back to an earlier template is an update like any other, and what still runs it counts as current again.
 */
import type { BuildSpec } from '../model/resources.js'

/** Of all that a game server is started with: template, ports and metadata. 14 hex digits. */
export function templateHash(spec: Pick<BuildSpec, 'template' | 'portsToExpose' | 'buildMetadata'>): string {
  return hash(canonical([spec.template, spec.portsToExpose, spec.buildMetadata ?? {}]))
}

/** JSON with the keys of every object in order. */
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

/** 53 bits of cyrb53: plenty to tell the few templates of one build apart. */
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
