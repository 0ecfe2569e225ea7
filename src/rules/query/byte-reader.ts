/** Reads binary answers of games, which may be damaged or made to do damage. Pure. */

/** Invalid UTF-8 becomes U+FFFD. */
const decoder = new TextDecoder()

export function textOfBytes(bytes: Uint8Array): string {
  return decoder.decode(bytes)
}

/** Never throws: a read beyond the end returns 0 or '', and `isTruncated` is true from then on. So callers check once, after their last read. */
export class ByteReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #littleEndian: boolean
  #offset = 0
  #isTruncated = false

  constructor(bytes: Uint8Array, order: 'little-endian' | 'big-endian') {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#littleEndian = order === 'little-endian'
  }

  get isTruncated(): boolean {
    return this.#isTruncated
  }

  u8(): number {
    const at = this.#take(1)
    return at < 0 ? 0 : this.#view.getUint8(at)
  }

  u16(): number {
    const at = this.#take(2)
    return at < 0 ? 0 : this.#view.getUint16(at, this.#littleEndian)
  }

  u32(): number {
    const at = this.#take(4)
    return at < 0 ? 0 : this.#view.getUint32(at, this.#littleEndian)
  }

  u64(): bigint {
    const at = this.#take(8)
    return at < 0 ? 0n : this.#view.getBigUint64(at, this.#littleEndian)
  }

  /** Not a copy. Empty if there are not as many. */
  bytes(count: number): Uint8Array {
    const at = this.#take(count)
    return at < 0 ? new Uint8Array() : this.#bytes.subarray(at, at + count)
  }

  /** All that is left. Not a copy. */
  rest(): Uint8Array {
    return this.bytes(this.#bytes.byteLength - this.#offset)
  }

  /** UTF-8 that ends with a NUL, which is not part of the text. */
  textUntilNul(): string {
    const end = this.#bytes.indexOf(0, this.#offset)
    if (end < 0) this.#isTruncated = true
    if (this.#isTruncated) return ''
    const text = decoder.decode(this.#bytes.subarray(this.#offset, end))
    this.#offset = end + 1
    return text
  }

  /** The offset of the next `count` bytes, which are passed over. -1 if there are not as many. */
  #take(count: number): number {
    if (this.#isTruncated || count > this.#bytes.byteLength - this.#offset) {
      this.#isTruncated = true
      return -1
    }
    const at = this.#offset
    this.#offset += count
    return at
  }
}

export function isSameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.byteLength === other.byteLength && one.every((byte, i) => byte === other[i])
}

/** The bytes of a hexadecimal text, in either case. Undefined if it is none. */
export function bytesOfHex(text: string): Uint8Array | undefined {
  if (text.length % 2 !== 0 || !/^[0-9a-f]*$/i.test(text)) return undefined
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16))
}
