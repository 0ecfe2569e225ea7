/**
 * Serializes large answers in slices, between which the event loop handles other work. A small answer is sent whole, with its
 * length.
 */
import { sliceChars, turns } from '../../platform/turns.js'
import { isObject } from '../../rules/validation/problem.js'
import { type HttpResponse, jsonType } from './http-response.js'

export function jsonInSlices(status: number, value: unknown, headers?: Readonly<Record<string, string>>): HttpResponse {
  const parts = jsonParts(value)
  const first = nextSlice(parts)
  if (first.isLast) return { status, body: first.text, ...(headers && { headers }) }
  return { status, stream: slices(first.text, parts), headers: { ...headers, 'Content-Type': jsonType } }
}

/** Yields the text of JSON.stringify in parts. Divides objects, and arrays into their items. */
export function* jsonParts(value: unknown): Generator<string, void> {
  if (Array.isArray(value)) {
    let before = '['
    for (const item of value) {
      yield before + (JSON.stringify(item) ?? 'null')
      before = ','
    }
    yield before === '[' ? '[]' : ']'
  } else if (isObject(value)) {
    let before = '{'
    for (const [key, part] of Object.entries(value)) {
      if (part === undefined) continue
      yield `${before}${JSON.stringify(key)}:`
      yield* jsonParts(part)
      before = ','
    }
    yield before === '{' ? '{}' : '}'
  } else yield JSON.stringify(value)
}

async function* slices(first: string, parts: Iterator<string, void>): AsyncGenerator<string> {
  yield first
  for (;;) {
    await turns.take()
    const { text, isLast } = nextSlice(parts)
    yield text
    if (isLast) return
  }
}

function nextSlice(parts: Iterator<string, void>): { readonly text: string; readonly isLast: boolean } {
  let text = ''
  while (text.length < sliceChars) {
    const part = parts.next()
    if (part.done === true) return { text, isLast: true }
    text += part.value
  }
  return { text, isLast: false }
}
