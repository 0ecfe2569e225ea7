/**
 * What holds of a template on every backend: a pod with at least one container, and the fields that gamekeeper reads
 * of the types that a PodTemplateSpec gives them. `null` is as good as absent, as it is for Kubernetes. Pure.
 */
import { isPort } from '../model/ports.js'
import { type Checked, invalid, isObject, shown, valid } from './problem.js'

export type Fields = Readonly<Record<string, unknown>>

export interface TemplateShape {
  readonly template: Fields
  readonly pod: Fields
  /** The game server's container. */
  readonly first: Fields
  readonly containerCount: number
}

type Refusal = ReturnType<typeof invalid>

/** `field` is where the template stands, for messages. */
export function checkShape(template: unknown, field: string): Checked<TemplateShape> {
  if (!isObject(template)) return invalid(field, `must be a PodTemplateSpec object, but is ${shown(template)}`)
  const pod = template['spec']
  if (!isObject(pod)) return invalid(`${field}.spec`, `must be an object with containers, but is ${shown(pod)}`)
  const grace = pod['terminationGracePeriodSeconds']
  if (isGiven(grace) && !(Number.isSafeInteger(grace) && Number(grace) >= 0)) {
    return invalid(`${field}.spec.terminationGracePeriodSeconds`, `must be an integer ≥ 0, but is ${shown(grace)}`)
  }
  const at = `${field}.spec.containers`
  const list: unknown = pod['containers']
  const first: unknown = Array.isArray(list) ? list[0] : undefined
  if (!Array.isArray(list) || list.length === 0) {
    return invalid(at, `must be an array of at least one container, but is ${shown(list)}`)
  }
  const problem = firstOf(list, (container, i) => checkContainer(container, `${at}[${i}]`))
  return problem ?? valid({ template, pod, first: isObject(first) ? first : {}, containerCount: list.length })
}

function checkContainer(container: unknown, at: string): Refusal | undefined {
  if (!isObject(container)) return invalid(at, `must be an object, but is ${shown(container)}`)
  return (
    checkStrings(container, ['name', 'image', 'workingDir'], at) ??
    checkLists(container, ['command', 'args'], isString, 'strings', at) ??
    checkLists(container, ['env', 'ports'], isObject, 'objects', at) ??
    firstOf(objectsAt(container, 'env'), (entry, i) => checkVariable(entry, `${at}.env[${i}]`)) ??
    checkPorts(objectsAt(container, 'ports'), `${at}.ports`) ??
    checkLimits(container['resources'], `${at}.resources`)
  )
}

function checkVariable(entry: Fields, at: string): Refusal | undefined {
  const { name } = entry
  if (typeof name !== 'string' || name === '' || name.includes('=') || name.includes('\0')) {
    return invalid(`${at}.name`, `must be a variable's name, but is ${shown(name)}`)
  }
  return checkStrings(entry, ['value'], at)
}

const protocols = ['TCP', 'UDP', 'SCTP']

function checkPorts(ports: readonly Fields[], at: string): Refusal | undefined {
  const numbers = new Map<unknown, number>()
  return firstOf(ports, (entry, i) => {
    const { containerPort, protocol, name } = entry
    if (!isPort(containerPort)) {
      return invalid(`${at}[${i}].containerPort`, `must be an integer from 1 to 65535, but is ${shown(containerPort)}`)
    }
    if (isGiven(protocol) && !protocols.some((known) => known === protocol)) {
      return invalid(`${at}[${i}].protocol`, `must be one of ${protocols.join(', ')}, but is ${shown(protocol)}`)
    }
    if (!isGiven(name)) return undefined
    // A game finds its ports by name: of two with one name it would find only one.
    const other = numbers.get(name) ?? containerPort
    if (other !== containerPort) {
      return invalid(`${at}[${i}].name`, `must name one port, but ${shown(name)} names ${other} and ${containerPort}`)
    }
    numbers.set(name, containerPort)
    return checkStrings(entry, ['name'], `${at}[${i}]`)
  })
}

/** As Kubernetes writes amounts: `2`, `0.5`, `500m`, `256Mi`, `1e3`. */
const quantity = /^\+?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/

function checkLimits(resources: unknown, at: string): Refusal | undefined {
  if (!isGiven(resources)) return undefined
  if (!isObject(resources)) return invalid(at, `must be an object, but is ${shown(resources)}`)
  const { limits } = resources
  if (!isGiven(limits)) return undefined
  if (!isObject(limits)) return invalid(`${at}.limits`, `must be an object of quantities, but is ${shown(limits)}`)
  return firstOf(Object.entries(limits), ([name, limit]) =>
    !isGiven(limit) || ((isString(limit) || typeof limit === 'number') && quantity.test(String(limit)))
      ? undefined
      : invalid(`${at}.limits.${name}`, `must be a quantity like 2, "500m" or "256Mi", but is ${shown(limit)}`),
  )
}

function checkStrings(object: Fields, names: readonly string[], at: string): Refusal | undefined {
  return firstOf(names, (name) => {
    const value = object[name]
    if (!isGiven(value) || isString(value)) return undefined
    return invalid(`${at}.${name}`, `must be a string, but is ${shown(value)}`)
  })
}

function checkLists(
  object: Fields,
  names: readonly string[],
  isPart: (value: unknown) => boolean,
  parts: string,
  at: string,
): Refusal | undefined {
  return firstOf(names, (name) => {
    const value = object[name]
    if (!isGiven(value) || (Array.isArray(value) && value.every(isPart))) return undefined
    return invalid(`${at}.${name}`, `must be an array of ${parts}, but is ${shown(value)}`)
  })
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}

/** The first thing that `check` has to say of an item. */
export function firstOf<T, R>(items: readonly T[], check: (item: T, index: number) => R | undefined): R | undefined {
  for (const [i, item] of items.entries()) {
    const found = check(item, i)
    if (found !== undefined) return found
  }
  return undefined
}

export function objectAt(object: Fields, name: string): Fields {
  const value = object[name]
  return isObject(value) ? value : {}
}

export function objectsAt(object: Fields, name: string): readonly Fields[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export function stringAt(object: Fields, name: string): string | undefined {
  const value = object[name]
  return isString(value) ? value : undefined
}

export function stringsAt(object: Fields, name: string): readonly string[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter(isString) : []
}
