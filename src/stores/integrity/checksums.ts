/**
 * The checksum in front of each record: eight hexadecimal digits, then the record as JSON. It covers the key and the version, too, so that a
 * record is not taken for another one or for an older version. Pure, except that `sealBytes` writes into bytes from `encode`.
 */
import { crc32 } from 'node:zlib'
import { keyOf } from '../../rules/model/resources.js'
import { isObject } from '../../rules/validation/problem.js'

const checksumLength = 8

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
  const sum = crc32(prefixOf(key, version) + json)
  return sum.toString(16).padStart(checksumLength, '0')
}

function prefixOf(key: string, version: number): string {
  return `${key}\0${version}\0`
}

/** Small records share a buffer, since a buffer of its own would cost more than what it contains. */
const sharedBytes = 256 * 1_024
const hexDigits = Buffer.from('0123456789abcdef')
let shared = Buffer.alloc(0)
let used = 0

/**
 * Returns the JSON as UTF-8, with room for the checksum in front, for a write whose version is not known yet. So the text can be
 * collected while the write waits; a thousand texts that wait would cost more time in the garbage collector than the writes do. No one
 * else uses these bytes.
 */
export function encode(json: string): Uint8Array {
  // A UTF-16 unit takes at most three bytes.
  const mostBytes = checksumLength + json.length * 3
  if (mostBytes > sharedBytes / 8) return Buffer.from('0'.repeat(checksumLength) + json)
  if (shared.length - used < mostBytes) {
    shared = Buffer.allocUnsafeSlow(sharedBytes)
    used = 0
  }
  const start = used
  used += checksumLength
  used += shared.write(json, used)
  return shared.subarray(start, used)
}

/** Writes the checksum into bytes from `encode`. They are then those of `seal`. */
export function sealBytes(key: string, version: number, bytes: Uint8Array): void {
  let sum = crc32(bytes.subarray(checksumLength), crc32(prefixOf(key, version)))
  for (let i = checksumLength - 1; i >= 0; i--) {
    bytes[i] = hexDigits[sum & 0xf] ?? 0
    sum >>>= 4
  }
}
