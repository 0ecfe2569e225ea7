/**
 * Compiles schemas into functions that validate values. Pure. Schemas should be compiled when a module loads, not for each
 * request.
 */
import { fitsBytes, utf8Bytes } from '../model/sizes.js'
import { closestName } from './closest-name.js'
import { allInOne, type Checked, isObject, maxProblems, type Problem, shown, shownName, valid } from './problem.js'
import type { ArraySchema, FieldsOf, FromSchema, MapSchema, ObjectSchema, Schema, StringSchema } from './schema.js'

/** `root` is the path of the value, for messages. Omitted for a request body, whose fields are named without a prefix. */
export type Validator<T> = (value: unknown, root?: string) => Checked<T>

/**
 * Returns the first problem with a value. The problem's `field` is relative to the value: `.spec.max`, or empty for the
 * value itself. The check of an object, an array or a map adds all problems to `all`, if that is given, until there are many.
 */
type Check = (value: unknown, all?: Problem[]) => Problem | undefined

export function compile<const S extends Schema>(schema: S): Validator<FromSchema<S>> {
  const check = checkOf(schema)
  return (value, root) => {
    const problem = check(value)
    // The check has just proved that the value has this type, which TypeScript cannot infer.
    if (problem === undefined) return valid(value as FromSchema<S>)
    return { ok: false, problem: { field: fieldAt(problem.field, root), message: problem.message } }
  }
}

/** Like `compile`, for documents that people write: the message names all problems, not only the first. */
export function compileDocument<const S extends Schema>(schema: S): Validator<FromSchema<S>> {
  const check = checkOf(schema)
  const validate = compile(schema)
  return (value, root) => {
    const checked = validate(value, root)
    if (checked.ok) return checked
    const [first, ...others] = problemsIn(check, value).map((one) => ({ ...one, field: fieldAt(one.field, root) }))
    return first ? { ok: false, problem: allInOne([first, ...others]) } : checked
  }
}

function problemsIn(check: Check, value: unknown): readonly Problem[] {
  const all: Problem[] = []
  const first = check(value, all)
  return all.length > 0 || first === undefined ? all : [first]
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
  return schema.nullable ? (value, all) => (value === null ? undefined : check(value, all)) : check
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
  if (format !== undefined) tests.push(isTime)
  const [first, ...rest] = tests
  if (first === undefined) return (value) => typeof value === 'string'
  if (rest.length === 0) return (value) => typeof value === 'string' && first(value)
  return (value) => typeof value === 'string' && tests.every((test) => test(value))
}

/** False for days that do not exist, such as 2027-02-30, which `Date.parse` takes for days of the next month. */
function isTime(text: string): boolean {
  if (Number.isNaN(Date.parse(text))) return false
  const [, date] = /^(\d{4}-\d\d-\d\d)(?!\d)/.exec(text) ?? []
  return date === undefined || new Date(`${date}T00:00:00Z`).toISOString().startsWith(date)
}

function arrayCheck(schema: ArraySchema): Check {
  const { minItems = 0, maxItems = Infinity, maxTotalBytes, uniqueItems = false } = schema
  const check = checkOf(schema.items)
  return (value, all) => {
    if (!Array.isArray(value) || value.length < minItems) return mismatch(schema, value)
    if (value.length > maxItems) {
      return { field: '', message: `must have at most ${maxItems} items, but has ${value.length}` }
    }
    for (let i = 0; i < value.length; i++) {
      const problem = check(value[i])
      if (!problem) continue
      if (!all) return prefixed(`[${i}]`, problem)
      addProblems(all, `[${i}]`, check, value[i])
    }
    if (all && all.length > 0) return all[0]
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
  return (value, all) => {
    if (!isObject(value)) return mismatch(schema, value)
    for (const name of Object.keys(value)) {
      if (checkKey(name)) {
        return { field: '', message: `must have keys of ${keys?.expected ?? 'another form'}, but has ${shown(name)}` }
      }
      const problem = check(value[name])
      if (!problem) continue
      if (!all) return prefixed(`.${shownName(name)}`, problem)
      addProblems(all, `.${shownName(name)}`, check, value[name])
    }
    if (all && all.length > 0) return all[0]
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
  const names: ReadonlySet<string> = new Set(Object.keys(properties))
  return (value, all) => {
    if (!isObject(value)) return mismatch(schema, value)
    const hasUnknown = unknownFields === 'refuse' && hasOthers(value, names)
    const unknown = hasUnknown ? unknownFieldIn(value, schema, all) : undefined
    const early = unknown ?? conflictIn(value, schema)
    if (early && !all) return early
    if (early && early !== unknown) all?.push(early)
    for (const { name, isRequired, check } of fields) {
      const part = value[name]
      if (part === undefined && !isRequired) continue
      const problem = check(part)
      if (!problem) continue
      if (!all) return prefixed(`.${name}`, problem)
      addProblems(all, `.${name}`, check, part)
    }
    const late = missingIn(value, schema) ?? (early ? undefined : alternativeIn(value, schema))
    if (late && all) all.push(late)
    return all?.[0] ?? late
  }
}

/** Adds the problems of a part of a value. */
function addProblems(all: Problem[], prefix: string, check: Check, part: unknown): void {
  // One more than are named, so that the message can say that there are more.
  if (all.length > maxProblems) return
  for (const problem of problemsIn(check, part)) all.push(prefixed(prefix, problem))
}

/** True if the object has fields with other names, or inherits some. Takes a fraction of the time of a list of them. */
function hasOthers(value: object, names: ReadonlySet<string>): boolean {
  for (const name in value) if (!names.has(name)) return true
  return false
}

/** Returns the problem of the first unknown field, which lists the known ones, and adds those of the others to `all`. */
function unknownFieldIn(
  value: Readonly<Record<string, unknown>>,
  { properties }: ObjectSchema,
  all: Problem[] | undefined,
): Problem | undefined {
  const unknown = Object.keys(value).filter((name) => !Object.hasOwn(properties, name))
  const known = Object.keys(properties)
  const problems = unknown.slice(0, all ? maxProblems + 1 : 1).map((name, i) => unknownField(name, known, i === 0))
  all?.push(...problems)
  return problems[0]
}

/** Like a schema that refuses unknown fields, for an object whose known fields are checked elsewhere. */
export function checkFieldNames(
  value: Readonly<Record<string, unknown>>,
  known: readonly string[],
): Checked<Readonly<Record<string, unknown>>> {
  const unknown = Object.keys(value).find((name) => !known.includes(name))
  if (unknown === undefined) return valid(value)
  const { field, message } = unknownField(unknown, known, true)
  return { ok: false, problem: { field: fieldAt(field, undefined), message } }
}

function unknownField(unknown: string, known: readonly string[], isFirst: boolean): Problem {
  const closest = closestName(unknown, known)
  const field = `.${shownName(unknown)}`
  if (closest !== undefined) return { field, message: `is not allowed; did you mean ${closest}?` }
  return { field, message: `is not allowed${isFirst ? `; allowed fields are ${known.join(', ')}` : ''}` }
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

type Limits = Pick<StringSchema, 'controls' | 'maxBytes'>

/* eslint-disable no-control-regex -- these patterns must match control characters */
const forbidden = {
  none: /[\u0000-\u001f\u007f]/,
  whitespace: /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/,
} as const
/* eslint-enable no-control-regex */

/** A space at either end counts as invisible. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}|^ | $/u

function hasLimits({ controls, maxBytes }: StringSchema): boolean {
  return controls !== undefined || maxBytes !== undefined
}

/** Returns the problem of a string that is too large or contains a control character that it must not contain. */
function checkLimits({ controls, maxBytes = Infinity }: Limits, text: string): Problem | undefined {
  if (!fitsBytes(text, maxBytes)) return tooManyBytes(maxBytes, utf8Bytes(text))
  if (controls === 'visible') return isPlainlyVisible(text) ? undefined : checkVisible(text)
  // `test` takes a fraction of the time of `search`.
  if (controls === undefined || !forbidden[controls].test(text)) return undefined
  const at = text.search(forbidden[controls])
  const allowed = controls === 'none' ? '' : ' except tabs and line breaks'
  return problemOf(`must have no control characters${allowed}, but has ${characterAt(text, at)}`)
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
  if (text === '.' || text === '..') return problemOf(`must not be ${text}, because a URL cannot contain that`)
  const at = text.search(invisible)
  if (at < 0) return undefined
  return problemOf(`must have only visible characters, and spaces between them, but has ${characterAt(text, at)}`)
}

function characterAt(text: string, at: number): string {
  const code = (text.codePointAt(at) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return `U+${code} at position ${at + 1}`
}

/** Returns the problem of an array or object whose strings, keys included, are too large together. */
function checkTotal(value: unknown, maxBytes: number): Problem | undefined {
  const strings = isObject(value) ? Object.entries(value).flat() : Array.isArray(value) ? value : []
  let bytes = 0
  for (const text of strings) if (typeof text === 'string') bytes += utf8Bytes(text)
  return bytes > maxBytes ? tooManyBytes(maxBytes, bytes) : undefined
}

function tooManyBytes(most: number, found: number): Problem {
  return problemOf(`must have at most ${most} bytes of UTF-8, but has ${found}`)
}

function problemOf(message: string): Problem {
  return { field: '', message }
}
