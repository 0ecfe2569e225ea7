/**
 * Recognizes built-ins of any realm. A test runner such as Jest runs code in a realm of its own, where the errors, promises and bytes that Node
 * creates are not instances of `Error`, `Promise` and `Uint8Array`. A test keeps `instanceof` with a built-in out of the sources.
 */

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
