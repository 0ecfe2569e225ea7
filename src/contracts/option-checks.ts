/**
 * Checks the options of public functions. Callers without a compiler, or with a cast, get the error `invalid`, which names the
 * option and says what was probably meant. An option is never ignored: `authorise` would let everybody in.
 */
import { closestName } from '../rules/validation/closest-name.js'
import { isObject, shown } from '../rules/validation/problem.js'
import { FleetError } from './errors.js'
import { isPromise } from '../rules/model/values.js'

export interface OptionType {
  /** Completes a sentence that starts with the option's name: "must be a function". */
  readonly must: string
  readonly is: (value: unknown) => boolean
  readonly isRequired?: true
}

/** The type of every option of `T`. The compiler reports an option that is missing here. */
export type OptionTypes<T extends object> = { readonly [K in keyof Required<T>]: OptionType }

const typeNamed = (type: 'boolean' | 'function' | 'number' | 'string', must: string): OptionType => ({
  must,
  is: (value) => typeof value === type,
})

export const aBoolean = typeNamed('boolean', 'must be true or false')
export const aFunction = typeNamed('function', 'must be a function')
export const aNumber = typeNamed('number', 'must be a number')
export const aString = typeNamed('string', 'must be a string')
export const anObject: OptionType = { must: 'must be an object', is: isObject }
export const strings: OptionType = {
  must: 'must be an array of strings',
  is: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
}
/** For options that are checked where they are used. */
export const anything: OptionType = { must: 'may be anything', is: () => true }

export const aSignal: OptionType = {
  must: 'must be an AbortSignal',
  is: (value) => isObject(value) && 'aborted' in value && hasMethods(value, ['addEventListener']),
}
const methodsOfLogger = withMethods('a logger such as pino, or false', ['info', 'warn', 'error'])
export const aLogger: OptionType = { ...methodsOfLogger, is: (value) => value === false || methodsOfLogger.is(value) }
export const aClock: OptionType = withMethods('a clock, such as systemClock', ['now', 'elapsed', 'after'])

/** An object that has these methods. `what` says where one comes from. */
export function withMethods(what: string, methods: readonly string[]): OptionType {
  return { must: `must be ${what}`, is: (value) => hasMethods(value, methods) }
}

export function required(type: OptionType): OptionType {
  return { ...type, isRequired: true }
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => typeof value[name] === 'function')
}

/** Throws `invalid`, naming the option, unless `options` has only known options of the right types. */
export function checkOptions<T extends object>(owner: string, options: unknown, types: OptionTypes<T>): void {
  const table: Readonly<Record<string, OptionType>> = types
  if (!isObject(options)) {
    const example = Object.keys(table).find((name) => table[name]?.isRequired) ?? Object.keys(table)[0]
    throw new FleetError('invalid', `${owner} takes an object, such as { ${example} }, but got ${shown(options)}`)
  }
  for (const [name, { must, is, isRequired }] of Object.entries(table)) {
    const value = options[name]
    if (value === undefined && !isRequired) continue
    if (value === undefined) throw new FleetError('invalid', `${owner}: ${name} is missing: it ${must}`)
    if (!is(value)) throw new FleetError('invalid', `${owner}: ${name} ${must}, but is ${actual(value)}`)
  }
  checkNames(owner, options, Object.keys(table))
}

/**
 * Throws `invalid`, saying what is missing, unless `fleet` has these members: a fleet that `createFleet` returned, or a test's own object with
 * the same part of it.
 */
export function checkFleet(owner: string, fleet: unknown, members: readonly string[]): void {
  checkArgument(owner, fleet, { what: 'a fleet, such as createFleet() resolves with', members, wrapped: 'fleet' })
}

export interface ArgumentType {
  /** What it must be, and where it comes from. */
  readonly what: string
  readonly members: readonly string[]
  /** The name under which it may have been put into an object, by mistake. */
  readonly wrapped: string
}

/** Throws `invalid` unless the first argument of `owner` has these members. */
export function checkArgument(owner: string, value: unknown, { what, members, wrapped }: ArgumentType): void {
  const missing = isObject(value) ? members.find((name) => value[name] === undefined) : ''
  if (missing === undefined) return
  if (isObject(value) && isObject(value[wrapped])) {
    throw new FleetError('invalid', `${owner} takes ${what}, but got an object that contains one: ${owner}(${wrapped})`)
  }
  const lacks = missing === '' || isPromise(value) ? `but got ${actual(value)}` : `but what it got has no ${missing}`
  throw new FleetError('invalid', `${owner} takes ${what}, ${lacks}`)
}

function actual(value: unknown): string {
  if (typeof value === 'function') return 'a function; call it'
  return isPromise(value) ? 'a promise; await it' : shown(value)
}

/** Throws `invalid` if the object has a name that is not known. */
export function checkNames(owner: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue
    throw new FleetError('invalid', `${owner}: unknown option ${name}; ${suggestion(name, known, 'options')}`)
  }
}

/** "did you mean authorize?", or the list of what is known if nothing is close. `kind`: what the names are, in the plural. */
export function suggestion(name: string, known: readonly string[], kind: string): string {
  const closest = closestName(name, known)
  return closest === undefined ? `known ${kind}: ${known.join(', ')}` : `did you mean ${closest}?`
}

export function checkWait(waitMs: unknown, maxMs: number): void {
  if (typeof waitMs === 'number' && waitMs >= 0 && waitMs <= maxMs) return
  const must = maxMs === Infinity ? 'a number ≥ 0' : `from 0 to ${maxMs}`
  throw new FleetError('invalid', `waitMs must be ${must}, but is ${shown(waitMs)}`)
}
