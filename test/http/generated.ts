/** Arbitraries for a JSON Schema: valid and nearly valid values. */
import { fc } from '@fast-check/vitest'
import type { OpenApiDocument } from '../../src/http/index.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { resolved } from './validated.js'

/** Valid values of a schema in the document. */
export function valuesOf(document: OpenApiDocument, schema: unknown): fc.Arbitrary<unknown> {
  const known = resolved(document, schema)
  if (known === undefined) throw new Error(`no schema: ${JSON.stringify(schema)}`)
  const of = (part: unknown) => valuesOf(document, part)
  if (Array.isArray(known['anyOf'])) return fc.oneof(...known['anyOf'].map(of))
  if (Array.isArray(known['enum'])) return fc.constantFrom<unknown>(...known['enum'])
  if ('const' in known) return fc.constant(known['const'])
  const { type } = known
  if (Array.isArray(type)) return fc.oneof(...type.map((one: unknown) => of({ ...known, type: one })))
  switch (type) {
    case 'string':
      return stringsOf(known)
    case 'integer':
      return fc.oneof(fc.integer(boundsOf(known, 100)), fc.integer(boundsOf(known, Number.MAX_SAFE_INTEGER)))
    case 'number':
      return fc.double({ noNaN: true, ...boundsOf(known, 1e6) })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const lengths = { minLength: numberOf(known['minItems'], 0), maxLength: numberOf(known['maxItems'], 4) }
      return known['uniqueItems'] === true
        ? fc.uniqueArray(of(known['items']), lengths)
        : fc.array(of(known['items']), lengths)
    }
    case 'object':
      return objectsOf(known, of)
    default:
      // A schema without a type allows any value.
      return fc.jsonValue()
  }
}

/** Values with one part replaced, removed or added. */
export function broken(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc
    .tuple(
      values,
      fc.nat(),
      fc.oneof(fc.constant(undefined), fc.jsonValue(), fc.constantFrom<unknown>(-1, 0.5, '', [])),
    )
    .map(([value, at, other]) => {
      const places = placesIn(value)
      return replaced(value, places[at % places.length] ?? [], other)
    })
}

type Path = readonly (string | number)[]

function placesIn(value: unknown, at: Path = []): readonly Path[] {
  if (typeof value !== 'object' || value === null) return [at]
  const parts = Object.entries(value).flatMap(([key, part]) => placesIn(part, [...at, key]))
  return [at, [...at, Array.isArray(value) ? value.length : 'added'], ...parts]
}

function replaced(value: unknown, [first, ...rest]: Path, other: unknown): unknown {
  if (first === undefined) return other
  if (Array.isArray(value)) {
    const copy: unknown[] = [...value]
    copy[Number(first)] = replaced(copy[Number(first)], rest, other)
    return copy
  }
  if (!isObject(value)) return other
  return { ...value, [first]: replaced(value[first], rest, other) }
}

function stringsOf({ pattern, minLength, maxLength, format }: Readonly<Record<string, unknown>>): fc.Arbitrary<string> {
  if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString())
  const most = numberOf(maxLength, 200)
  // fast-check does not generate texts for patterns with Unicode properties.
  if (typeof pattern === 'string' && pattern.includes('\\p{')) {
    const unicode = new RegExp(pattern, 'u')
    const texts = fc.string({ minLength: numberOf(minLength, 0), unit: 'grapheme' })
    return texts.filter((text) => text.length <= most && unicode.test(text))
  }
  if (typeof pattern === 'string') {
    return fc.stringMatching(new RegExp(pattern)).filter((text) => text.length <= most)
  }
  return fc.string({ minLength: numberOf(minLength, 0), maxLength: Math.min(most, 200), unit: 'binary' })
}

function objectsOf(
  schema: Readonly<Record<string, unknown>>,
  of: (schema: unknown) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  const { properties, required, additionalProperties, minProperties, oneOf, propertyNames } = schema
  if (Array.isArray(oneOf)) return fc.oneof(...oneOf.map((one: unknown) => objectsOf(chosen(schema, one), of)))
  const names = isObject(properties) ? Object.keys(properties) : []
  const parts = Object.fromEntries(names.map((name) => [name, of(isObject(properties) ? properties[name] : {})]))
  const needed = Array.isArray(required) ? required.filter((name): name is string => typeof name === 'string') : []
  const named = fc.record(parts, { requiredKeys: needed })
  const more = isObject(additionalProperties)
    ? fc.dictionary(keysOf(propertyNames), of(additionalProperties), { maxKeys: 3 })
    : fc.constant({})
  return fc
    .tuple(more, named)
    .map(([others, own]) => ({ ...others, ...own }))
    .filter((value) => Object.keys(value).length >= numberOf(minProperties, 0))
}

function keysOf(propertyNames: unknown): fc.Arbitrary<string> {
  return isObject(propertyNames) ? stringsOf(propertyNames) : fc.string()
}

/** The object of one alternative: with the fields that it requires, and without those that it forbids. */
function chosen(
  { oneOf: _, required, properties, ...schema }: Readonly<Record<string, unknown>>,
  one: unknown,
): Readonly<Record<string, unknown>> {
  const forbidden = new Set(JSON.stringify(isObject(one) ? one['not'] : undefined).match(/\w+/g))
  const kept = Object.entries(isObject(properties) ? properties : {}).filter(([name]) => !forbidden.has(name))
  const more: unknown = isObject(one) ? one['required'] : []
  return { ...schema, properties: Object.fromEntries(kept), required: [required, more].flat(2) }
}

function boundsOf({ minimum, maximum }: Readonly<Record<string, unknown>>, most: number) {
  const min = numberOf(minimum, -most)
  return { min, max: Math.max(min, Math.min(numberOf(maximum, most), most)) }
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}
