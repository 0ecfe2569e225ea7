/** Plain values: recognizes built-ins of any realm, and serializes data so that equal values have equal texts. Pure. */

export function isError(value: unknown): value is Error {
  const tag = tagOf(value)
  return tag === '[object Error]' || tag === '[object DOMException]'
}

export function isPromise(value: unknown): value is Promise<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

export function isBytes(value: unknown): value is Uint8Array {
  return tagOf(value) === '[object Uint8Array]'
}

export function isDate(value: unknown): value is Date {
  return tagOf(value) === '[object Date]'
}

function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value)
}

/**
 * More levels than a valid template has. A deeper one, which someone has stored without validation, must not overflow the stack
 * of a host that reads it.
 */
const maxLevels = 100

/** Serializes a value as JSON with sorted keys, without what is too deep. */
export function canonical(value: unknown, levels = maxLevels): string {
  if (levels === 0) return 'null'
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, levels - 1)).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item, levels - 1)}`).join(',')}}`
  }
  return JSON.stringify(value) ?? 'null'
}
