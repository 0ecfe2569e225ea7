/** Reads typed fields from an untyped object; a value with the wrong type counts as missing. Pure. */
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubeObject } from './kube-objects.js'

export type Fields = Readonly<Record<string, unknown>>

export function fieldsAt(object: KubeObject, name: string): Fields {
  const value = object[name]
  return isObject(value) ? value : {}
}

export function textAt(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

export function textsAt(fields: Fields, name: string): readonly string[] {
  const value = fields[name]
  return Array.isArray(value) ? value.filter((entry) => typeof entry === 'string') : []
}

export function numberAt(fields: Fields, name: string): number | undefined {
  const value = fields[name]
  return typeof value === 'number' ? value : undefined
}

/** Parses an RFC 3339 time into Unix milliseconds. */
export function timeAt(fields: Fields, name: string): number | undefined {
  const ms = Date.parse(textAt(fields, name) ?? '')
  return Number.isNaN(ms) ? undefined : ms
}

export function rfc3339(ms: number): string {
  return new Date(ms).toISOString()
}
