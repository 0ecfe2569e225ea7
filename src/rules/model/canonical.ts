/** Serializes plain data so that equal values have equal texts. Pure. */

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
