/** Checks sizes in bytes and control characters. Pure. */
import { fitsBytes, utf8Bytes } from '../model/sizes.js'
import type { StringSchema } from '../schemas/schema.js'
import { isObject, type Problem } from './problem.js'

type Limits = Pick<StringSchema, 'controls' | 'maxBytes'>

/* eslint-disable no-control-regex -- these patterns must match control characters */
const forbidden = {
  none: /[\u0000-\u001f\u007f]/,
  whitespace: /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/,
} as const
/* eslint-enable no-control-regex */

/** A space at either end counts as invisible. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}|^ | $/u

export function hasLimits({ controls, maxBytes }: StringSchema): boolean {
  return controls !== undefined || maxBytes !== undefined
}

/** Returns the problem of a string that is too large or contains a control character that it must not contain. */
export function checkLimits({ controls, maxBytes = Infinity }: Limits, text: string): Problem | undefined {
  if (!fitsBytes(text, maxBytes)) return tooManyBytes(maxBytes, utf8Bytes(text))
  if (controls === 'visible') return isPlainlyVisible(text) ? undefined : checkVisible(text)
  // `test` takes a fraction of the time of `search`.
  if (controls === undefined || !forbidden[controls].test(text)) return undefined
  const at = text.search(forbidden[controls])
  const allowed = controls === 'none' ? '' : ' except tabs and line breaks'
  return problem(`must have no control characters${allowed}, but has ${characterAt(text, at)}`)
}

/** ASCII that is visible, with a character other than `.`: spares most texts the search for invisible ones. A pattern takes twice the time. */
function isPlainlyVisible(text: string): boolean {
  let hasOthers = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x21 || code > 0x7e) return false
    if (code !== 0x2e) hasOthers = true
  }
  return hasOthers
}

function checkVisible(text: string): Problem | undefined {
  if (text === '.' || text === '..') return problem(`must not be ${text}, because a URL cannot contain that`)
  const at = text.search(invisible)
  if (at < 0) return undefined
  return problem(`must have only visible characters, and spaces between them, but has ${characterAt(text, at)}`)
}

function characterAt(text: string, at: number): string {
  const code = (text.codePointAt(at) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return `U+${code} at position ${at + 1}`
}

/** Returns the problem of an array or object whose strings, keys included, are too large together. */
export function checkTotal(value: unknown, maxBytes: number): Problem | undefined {
  const strings = isObject(value) ? Object.entries(value).flat() : Array.isArray(value) ? value : []
  let bytes = 0
  for (const text of strings) if (typeof text === 'string') bytes += utf8Bytes(text)
  return bytes > maxBytes ? tooManyBytes(maxBytes, bytes) : undefined
}

function tooManyBytes(most: number, found: number): Problem {
  return problem(`must have at most ${most} bytes of UTF-8, but has ${found}`)
}

function problem(message: string): Problem {
  return { field: '', message }
}
