/**
 * Checks what every backend requires of a template: that it matches the schema and that its port names are unambiguous.
 * Pure.
 */
import { podTemplate } from '../schemas/pod-template.js'
import { type Checked, invalid, isObject, type Refused, shown, valid } from './problem.js'
import { compileDocument } from './validator.js'

export type Fields = Readonly<Record<string, unknown>>

export interface TemplateShape {
  readonly template: Fields
  readonly pod: Fields
  /** The game server's container. */
  readonly first: Fields
  readonly containers: readonly Fields[]
}

const check = compileDocument(podTemplate)

/** `field` is the path of the template, for messages. */
export function checkShape(template: unknown, field: string): Checked<TemplateShape> {
  const checked = check(template, field)
  if (!checked.ok) return checked
  const pod = objectAt(checked.value, 'spec')
  const containers = objectsAt(pod, 'containers')
  const problem = firstOf(containers, (container, i) =>
    checkPortNames(objectsAt(container, 'ports'), `${field}.spec.containers[${i}].ports`),
  )
  const [first = {}] = containers
  return problem ?? valid({ template: checked.value, pod, first, containers })
}

/** A game looks up its ports by name, so two different port numbers must not share a name. */
function checkPortNames(ports: readonly Fields[], at: string): Refused | undefined {
  const numbers = new Map<string, unknown>()
  return firstOf(ports, (port, i) => {
    const name = stringAt(port, 'name')
    if (name === undefined) return undefined
    const { containerPort } = port
    const other = numbers.get(name) ?? containerPort
    numbers.set(name, containerPort)
    if (other === containerPort) return undefined
    return invalid(
      `${at}[${i}].name`,
      `must stand for one port number, but ${shown(name)} names ${shown(other)} and ${shown(containerPort)}`,
    )
  })
}

/** Returns the first result of `check` that is not undefined. */
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
  return typeof value === 'string' ? value : undefined
}

export function stringsAt(object: Fields, name: string): readonly string[] {
  const value = object[name]
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : []
}
