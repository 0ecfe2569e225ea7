/**
 * Compiles schemas into functions that validate values. Pure. Schemas should be compiled when a module loads, not for each
 * request.
 */
import type {
  ArraySchema,
  FieldsOf,
  FromSchema,
  MapSchema,
  ObjectSchema,
  Schema,
  StringSchema,
} from '../schemas/schema.js'
import { closestName } from './closest-name.js'
import { type Checked, isObject, type Problem, shown, shownName, valid } from './problem.js'
import { checkLimits, checkTotal, hasLimits } from './string-limits.js'

/** `root` is the path of the value, for messages. Omitted for a request body, whose fields are named without a prefix. */
export type Validator<T> = (value: unknown, root?: string) => Checked<T>

/**
 * Returns the first problem with a value. The problem's `field` is relative to the value: `.spec.max`, or empty for the
 * value itself.
 */
type Check = (value: unknown) => Problem | undefined

export function compile<const S extends Schema>(schema: S): Validator<FromSchema<S>> {
  const check = checkOf(schema)
  return (value, root) => {
    const problem = check(value)
    // The check has just proved that the value has this type, which TypeScript cannot infer.
    if (problem === undefined) return valid(value as FromSchema<S>)
    return { ok: false, problem: { field: fieldAt(problem.field, root), message: problem.message } }
  }
}

type FieldGuards<S> = { readonly [K in keyof FieldsOf<S>]-?: (value: unknown) => value is FieldsOf<S>[K] }

/** Creates a type guard for each field of an object, for callers that cannot afford to read the fields in a loop. */
export function compileFields<const S extends ObjectSchema>(schema: S): FieldGuards<S> {
  const { properties, required = [] } = schema
  const guards = Object.entries(properties).map(([name, part]) => {
    const check = checkOf(part)
    const isOptional = !required.includes(name)
    return [name, (value: unknown) => (value === undefined && isOptional) || check(value) === undefined]
  })
  return Object.fromEntries(guards) as FieldGuards<S>
}

function fieldAt(path: string, root: string | undefined): string {
  if (root !== undefined) return root + path
  return path === '' ? 'body' : path.slice(1) || '""'
}

function checkOf(schema: Schema): Check {
  const check = checkOfType(schema)
  return schema.nullable ? (value) => (value === null ? undefined : check(value)) : check
}

function checkOfType(schema: Schema): Check {
  switch (schema.type) {
    case 'string':
      return stringCheck(schema)
    case 'boolean':
      return valueCheck(schema, (value) => typeof value === 'boolean')
    case 'integer':
    case 'number': {
      const { minimum = -Infinity, maximum = Infinity } = schema
      const isNumber = schema.type === 'integer' ? Number.isSafeInteger : Number.isFinite
      return valueCheck(schema, (value) => isNumber(value) && Number(value) >= minimum && Number(value) <= maximum)
    }
    case 'array':
      return arrayCheck(schema)
    case 'object':
      return 'properties' in schema ? objectCheck(schema) : mapCheck(schema)
    default: {
      const { minimum } = schema
      const pattern = new RegExp(schema.pattern)
      return valueCheck(schema, (value) =>
        typeof value === 'string' ? pattern.test(value) : Number.isFinite(value) && Number(value) >= minimum,
      )
    }
  }
}

function valueCheck(schema: Schema, test: (value: unknown) => boolean): Check {
  return (value) => (test(value) ? undefined : mismatch(schema, value))
}

function stringCheck(schema: StringSchema): Check {
  const test = stringTest(schema)
  if (!hasLimits(schema)) return valueCheck(schema, test)
  return (value) => (typeof value === 'string' && test(value) ? checkLimits(schema, value) : mismatch(schema, value))
}

function stringTest(schema: StringSchema): (value: unknown) => boolean {
  const tests: ((text: string) => boolean)[] = []
  const { minLength, maxLength, format } = schema
  if (minLength !== undefined) tests.push((text) => text.length >= minLength)
  if (maxLength !== undefined) tests.push((text) => text.length <= maxLength)
  if (schema.pattern !== undefined) {
    const pattern = new RegExp(schema.pattern)
    tests.push((text) => pattern.test(text))
  }
  const values = schema.const === undefined ? schema.enum : [schema.const]
  if (values !== undefined) tests.push((text) => values.includes(text))
  if (format !== undefined) tests.push((text) => !Number.isNaN(Date.parse(text)))
  const [first, ...rest] = tests
  if (first === undefined) return (value) => typeof value === 'string'
  if (rest.length === 0) return (value) => typeof value === 'string' && first(value)
  return (value) => typeof value === 'string' && tests.every((test) => test(value))
}

function arrayCheck(schema: ArraySchema): Check {
  const { minItems = 0, maxItems = Infinity, maxTotalBytes, uniqueItems = false } = schema
  const check = checkOf(schema.items)
  return (value) => {
    if (!Array.isArray(value) || value.length < minItems) return mismatch(schema, value)
    if (value.length > maxItems) {
      return { field: '', message: `must have at most ${maxItems} items, but has ${value.length}` }
    }
    for (let i = 0; i < value.length; i++) {
      const problem = check(value[i])
      if (problem) return prefixed(`[${i}]`, problem)
    }
    const total = maxTotalBytes === undefined ? undefined : checkTotal(value, maxTotalBytes)
    return total ?? (uniqueItems ? duplicateIn(value) : undefined)
  }
}

function duplicateIn(values: readonly unknown[]): Problem | undefined {
  const seen = new Set<unknown>()
  const index = values.findIndex((value) => seen.size === seen.add(value).size)
  if (index < 0) return undefined
  return { field: `[${index}]`, message: `must not repeat a value, but ${shown(values[index])} is listed twice` }
}

function mapCheck(schema: MapSchema): Check {
  const { keys, maxTotalBytes } = schema
  const check = checkOf(schema.additionalProperties)
  const checkKey = keys === undefined ? () => undefined : checkOf(keys)
  return (value) => {
    if (!isObject(value)) return mismatch(schema, value)
    for (const name of Object.keys(value)) {
      if (checkKey(name)) {
        return { field: '', message: `must have keys of ${keys?.expected ?? 'another form'}, but has ${shown(name)}` }
      }
      const problem = check(value[name])
      if (problem) return prefixed(`.${shownName(name)}`, problem)
    }
    return maxTotalBytes === undefined ? undefined : checkTotal(value, maxTotalBytes)
  }
}

function objectCheck(schema: ObjectSchema): Check {
  const { properties, required = [], unknownFields } = schema
  const fields = Object.entries(properties).map(([name, part]) => ({
    name,
    isRequired: required.includes(name),
    check: checkOf(part),
  }))
  return (value) => {
    if (!isObject(value)) return mismatch(schema, value)
    const unknown = unknownFields === 'refuse' ? unknownFieldIn(value, schema) : undefined
    const early = unknown ?? conflictIn(value, schema)
    if (early) return early
    for (const { name, isRequired, check } of fields) {
      const part = value[name]
      if (part === undefined && !isRequired) continue
      const problem = check(part)
      if (problem) return prefixed(`.${name}`, problem)
    }
    return missingIn(value, schema) ?? alternativeIn(value, schema)
  }
}

function unknownFieldIn(value: Readonly<Record<string, unknown>>, { properties }: ObjectSchema): Problem | undefined {
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(properties, name))
  if (unknown === undefined) return undefined
  const known = Object.keys(properties)
  const closest = closestName(unknown, known)
  const mend = closest === undefined ? `allowed fields are ${known.join(', ')}` : `did you mean ${closest}?`
  return { field: `.${shownName(unknown)}`, message: `is not allowed; ${mend}` }
}

/** Reports a missing field that another field requires, or that no field is set although at least one must be. */
function missingIn(value: Readonly<Record<string, unknown>>, schema: ObjectSchema): Problem | undefined {
  const { properties, dependentRequired, minProperties } = schema
  for (const name in dependentRequired) {
    if (value[name] === undefined) continue
    const missing = dependentRequired[name]?.find((other) => value[other] === undefined)
    if (missing !== undefined)
      return { field: `.${name}`, message: `has no effect without ${missing}, which is absent` }
  }
  if (minProperties === undefined) return undefined
  for (const name in properties) if (value[name] !== undefined) return undefined
  return { field: '', message: `must set at least one of ${Object.keys(properties).join(', ')}` }
}

/** Reports that fields of two groups are set. */
function conflictIn(value: Readonly<Record<string, unknown>>, { alternatives }: ObjectSchema): Problem | undefined {
  if (alternatives === undefined) return undefined
  let chosen: string | undefined
  for (const group of alternatives) {
    const name = firstSet(group, value)
    if (name !== undefined && chosen !== undefined) {
      return { field: `.${name}`, message: `is not allowed beside ${chosen}; set ${eitherOf(alternatives)}` }
    }
    chosen ??= name
  }
  return undefined
}

/** Reports that no group is set, or that one is set in part. */
function alternativeIn(value: Readonly<Record<string, unknown>>, schema: ObjectSchema): Problem | undefined {
  const { alternatives, properties } = schema
  if (alternatives === undefined) return undefined
  for (const group of alternatives) {
    if (firstSet(group, value) === undefined) continue
    for (const name of group) {
      const part = properties[name]
      if (part && value[name] === undefined) return prefixed(`.${name}`, mismatch(part, undefined))
    }
    return undefined
  }
  return { field: '', message: `must have ${eitherOf(alternatives)}` }
}

function firstSet(group: readonly string[], value: Readonly<Record<string, unknown>>): string | undefined {
  for (const name of group) if (value[name] !== undefined) return name
  return undefined
}

function eitherOf(alternatives: readonly (readonly string[])[]): string {
  return alternatives.map((group) => group.join(' and ')).join(', or ')
}

function prefixed(prefix: string, { field, message }: Problem): Problem {
  return { field: prefix + field, message }
}

function mismatch(schema: Schema, value: unknown): Problem {
  return {
    field: '',
    message: `must be ${schema.expected ?? expectation(schema)}, but ${describeFound(schema, value)}`,
  }
}

/** Describes what the value is, or how long it is if its length is the problem. */
function describeFound(schema: Schema, value: unknown): string {
  const isTooLong =
    schema.type === 'string' && typeof value === 'string' && value.length > (schema.maxLength ?? Infinity)
  return isTooLong ? `has ${value.length} characters` : `is ${shown(value)}`
}

function expectation(schema: Schema): string {
  switch (schema.type) {
    case 'string':
      return expectedString(schema)
    case 'boolean':
      return 'true or false'
    case 'integer':
    case 'number': {
      const type = schema.type === 'integer' ? 'an integer' : 'a number'
      const { minimum, maximum } = schema
      if (minimum !== undefined && maximum !== undefined) return `${type} from ${minimum} to ${maximum}`
      if (minimum !== undefined) return `${type} ≥ ${minimum}`
      return maximum === undefined ? type : `${type} ≤ ${maximum}`
    }
    case 'array':
      return 'an array'
    case 'object':
      return 'an object'
    default:
      return 'a string or a number'
  }
}

function expectedString({ enum: values, const: only, minLength = 0, maxLength }: StringSchema): string {
  if (only !== undefined) return shown(only)
  if (values !== undefined) return `one of ${values.join(', ')}`
  if (maxLength !== undefined) return `a string of ${minLength} to ${maxLength} characters`
  return minLength > 0 ? 'a non-empty string' : 'a string'
}
