/**
 * Building blocks for the types of API objects. Every field may be missing. Fields that are not read are dropped, because
 * thousands of objects are cached. Pure.
 */
import { isObject } from '../../../src/rules/validation/problem.js'

export type Optional<T> = { readonly [field in keyof T]?: T[field] | undefined }

export type ObjectMeta = Optional<{
  name: string
  namespace: string
  uid: string
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  /** RFC 3339: the time at which deletion was requested plus the grace period. */
  deletionTimestamp: string
  deletionGracePeriodSeconds: number
}>

export type Condition = Optional<{ type: string; status: string; reason: string; message: string }>

/** Checks only that the value looks like an object of the kind; the API server guarantees that it matches the schema. */
export function hasObjectShape(value: unknown): boolean {
  return isObject(value) && isObject(value['metadata']) && (value['spec'] === undefined || isObject(value['spec']))
}

export function conditionsOfTypes(
  conditions: readonly Condition[] | undefined,
  types: readonly string[],
): readonly Condition[] | undefined {
  return conditions
    ?.filter(({ type = '' }) => types.includes(type))
    .map(({ type, status, reason, message }) => ({ type, status, reason, message }))
}
