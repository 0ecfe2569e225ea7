/**
 * Building blocks for the types of API objects that are read: every field may be missing. What is not read is dropped, since
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
  /** RFC 3339: when the deletion was requested, plus its grace period. */
  deletionTimestamp: string
  deletionGracePeriodSeconds: number
}>

export type Condition = Optional<{ type: string; status: string; reason: string; message: string }>

/** The API server guarantees the schema: it is enough to know that this is an object of the kind. */
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
