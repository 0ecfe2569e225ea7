/**
 * The bytes of a record's text, for a write: encoded when the write is requested, sealed when its version is known. So the text can be
 * collected while the write waits; a thousand texts that wait would cost more time in the garbage collector than the writes do.
 * Touches its own buffers only.
 */
import { crc32 } from 'node:zlib'
import { checksumLength, checksumPrefix } from './record-text.js'

/** Small records share a buffer, since a buffer of its own would cost more than what it contains. */
const sharedBytes = 256 * 1_024
const hexDigits = Buffer.from('0123456789abcdef')
let shared = Buffer.alloc(0)
let used = 0

/** Returns the JSON as UTF-8, with room for the checksum in front. No one else uses these bytes. */
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
  let sum = crc32(bytes.subarray(checksumLength), crc32(checksumPrefix(key, version)))
  for (let i = checksumLength - 1; i >= 0; i--) {
    bytes[i] = hexDigits[sum & 0xf] ?? 0
    sum >>>= 4
  }
}
