/** How a rule says what is wrong with an input: the field, and a sentence that names what was found there. */
export interface Problem {
  /** Path of the field as its author wrote it: `spec.standingBy`, `spec.template.spec.containers[0].command`. */
  readonly field: string
  /** Continues the field's name: "must be an integer ≥ 0, but is -1". */
  readonly message: string
}

export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: Problem }

export function valid<T>(value: T): Checked<T> {
  return { ok: true, value }
}

export function invalid(field: string, message: string): { readonly ok: false; readonly problem: Problem } {
  return { ok: false, problem: { field, message } }
}

/** A value as it may stand in a message: short, and with strings in quotes. Never throws. */
export function shown(value: unknown): string {
  if (value === undefined) return 'absent'
  const text = textOf(value)
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textOf(value: unknown): string {
  // As JSON, NaN and Infinity would be null, and a bigint would throw.
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    // Circular, nested too deeply, or not JSON at all: what it is must do.
    return Array.isArray(value) ? 'an array' : 'an object'
  }
}
