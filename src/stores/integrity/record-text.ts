/** The text of a stored record: a checksum of eight hexadecimal digits, then the record as JSON. Pure. */
import { crc32 } from 'node:zlib'
import { keyOf } from '../../rules/model/resources.js'
import { isObject } from '../../rules/validation/problem.js'

export const checksumLength = 8

/** The checksum covers the key and the version too, so that a record is not taken for another one or for an older version. */
export function seal(key: string, version: number, json: string): string {
  return checksumOf(key, version, json) + json
}

/** Throws an error whose message says what is wrong with the record. */
export function verify(key: string, version: number | undefined, text: string): void {
  const record: unknown = JSON.parse(jsonOf(key, version ?? 0, text))
  const { namespace, name } = isObject(record) ? record : {}
  if (typeof namespace === 'string' && typeof name === 'string' && keyOf({ namespace, name }) === key) return
  throw new Error('it is the record of another name')
}

/** Throws if the checksum does not match. */
export function jsonOf(key: string, version: number, text: string): string {
  const json = text.slice(checksumLength)
  if (text.slice(0, checksumLength) === checksumOf(key, version, json)) return json
  throw new Error('its checksum does not match')
}

function checksumOf(key: string, version: number, json: string): string {
  // One native call: each of them costs more than copying the text.
  const sum = crc32(checksumPrefix(key, version) + json)
  return sum.toString(16).padStart(checksumLength, '0')
}

/** What the checksum covers in front of the record. */
export function checksumPrefix(key: string, version: number): string {
  return `${key}\0${version}\0`
}
