/** The result of checking an input: either the checked value or the first problem. Pure. */
import { utf8Bytes } from '../model/sizes.js'

/** What is wrong with an input: the field, and a message that includes the field's value. */
export interface Problem {
  /** Path of the field: `spec.standingBy`, `spec.template.spec.containers[0].command`. */
  readonly field: string
  /** Completes a sentence that starts with the field's name: "must be an integer ≥ 0, but is -1". */
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

/** How many problems of one document are looked for, and how many bytes their message may have. */
export const maxProblems = 10
const maxBytes = 900

/** One problem that says them all: that of the first, with the others in its message. There must be at least one. */
export function allInOne([{ field, message }, ...others]: readonly [Problem, ...Problem[]]): Problem {
  let all = message
  for (const [i, other] of others.entries()) {
    const also = `; also ${other.field} ${other.message}`
    if (i + 1 === maxProblems || utf8Bytes(field + all + also) > maxBytes) return { field, message: `${all}; and more` }
    all += also
  }
  return { field, message: all }
}

/** Formats a value for a message: at most 60 characters, strings in quotes. Never throws. */
export function shown(value: unknown): string {
  if (value === undefined) return 'absent'
  return shownName(textOf(value))
}

/** Formats the name of a field for a message: at most 60 characters. */
export function shownName(name: string): string {
  return name.length > 60 ? `${name.slice(0, 57)}…` : name
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textOf(value: unknown): string {
  // JSON.stringify would turn NaN and Infinity into null, and would throw for a bigint.
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    // The value is circular, is nested too deeply, or cannot be represented as JSON.
    return Array.isArray(value) ? 'an array' : 'an object'
  }
}

/** `1 server`, `2 servers`: how messages count. `many` is needed for `matches` and the like. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
