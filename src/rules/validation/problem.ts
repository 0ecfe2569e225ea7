/** The result of checking an input: the checked value, or the first problem. Pure. */

/** What is wrong with an input: the field, and a message that contains its value. */
export interface Problem {
  /** Path of the field: `spec.standingBy`, `spec.template.spec.containers[0].command`. */
  readonly field: string
  /** Follows the name of the field: "must be an integer ≥ 0, but is -1". */
  readonly message: string
}

export interface Refused {
  readonly ok: false
  readonly problem: Problem
}

export type Checked<T> = { readonly ok: true; readonly value: T } | Refused

export function valid<T>(value: T): Checked<T> {
  return { ok: true, value }
}

export function invalid(field: string, message: string): Refused {
  return { ok: false, problem: { field, message } }
}

/** Formats a value for a message: at most 60 characters, strings in quotes. Never throws. */
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
    // Circular, nested too deeply, or not JSON.
    return Array.isArray(value) ? 'an array' : 'an object'
  }
}
