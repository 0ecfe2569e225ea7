/**
 * Messages of protobuf, as JSON of protobuf has them: 64-bit integers as strings, enums as numbers, maps as objects. For the few messages that
 * gRPC callers send here; no generator, and no groups or packed lists, which they do not have. Pure.
 */

/** The fields of a message by their numbers. */
export type Message = Readonly<Record<number, Field>>

interface Field {
  readonly name: string
  /** `int64?`, `string?`: one of the messages Int64Value and StringValue, which can be absent. */
  readonly type: 'string' | 'bool' | 'int32' | 'int64' | 'int64?' | 'string?' | Message
  /** Default: at most one value. */
  readonly many?: 'list' | 'map'
}

const varint = 0
const fixed64 = 1
const delimited = 2
const fixed32 = 5

/** Throws a RangeError for bytes that are no message. Fields that are not known are skipped. */
export function decodeMessage(message: Message, bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const lists = new Map<string, unknown[]>()
  const maps = new Map<string, (readonly [string, unknown])[]>()
  const values = new Map<string, unknown>()
  const reader = new Reader(bytes)
  while (!reader.isAtEnd) {
    const tag = Number(reader.varint())
    const field = message[tag >>> 3]
    const raw = reader.value(tag & 7)
    if (field === undefined) continue
    const { name, type, many } = field
    if (many === 'map') listIn(maps, name).push(entryOf(type, bytesIn(raw)))
    else if (many === 'list') listIn(lists, name).push(valueOf(type, raw))
    else values.set(name, valueOf(type, raw))
  }
  const objects = [...maps].map(([name, entries]) => [name, Object.fromEntries(entries)] as const)
  return Object.fromEntries<unknown>([...values, ...lists, ...objects])
}

function listIn<T>(lists: Map<string, T[]>, name: string): T[] {
  const list = lists.get(name) ?? []
  lists.set(name, list)
  return list
}

function entryOf(type: Field['type'], bytes: Uint8Array): readonly [string, unknown] {
  const { key, value } = decodeMessage({ 1: { name: 'key', type: 'string' }, 2: { name: 'value', type } }, bytes)
  return [typeof key === 'string' ? key : '', value ?? emptyOf(type)]
}

/** What a value is that is not on the wire. */
function emptyOf(type: Field['type']): unknown {
  return typeof type === 'object' ? {} : type === 'bool' ? false : type.startsWith('string') ? '' : 0
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function valueOf(type: Field['type'], raw: Uint8Array | bigint): unknown {
  if (typeof type === 'object') return decodeMessage(type, bytesIn(raw))
  if (type === 'int64?' || type === 'string?') {
    const inner = type === 'int64?' ? 'int64' : 'string'
    return decodeMessage({ 1: { name: 'value', type: inner } }, bytesIn(raw))['value'] ?? emptyOf(type)
  }
  if (type === 'string') return utf8.decode(bytesIn(raw))
  if (typeof raw !== 'bigint') throw new RangeError('a number is not written as one')
  if (type === 'bool') return raw !== 0n
  return type === 'int64' ? String(BigInt.asIntN(64, raw)) : Number(BigInt.asIntN(32, raw))
}

function bytesIn(raw: Uint8Array | bigint): Uint8Array {
  if (typeof raw === 'bigint') throw new RangeError('a text or message is written as a number')
  return raw
}

class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  varint(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const [byte = 0] = this.#take(1)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new RangeError('a number is longer than 64 bits')
  }

  value(wire: number): Uint8Array | bigint {
    switch (wire) {
      case varint:
        return this.varint()
      case fixed64:
        return this.#take(8)
      case delimited:
        return this.#take(Number(this.varint()))
      case fixed32:
        return this.#take(4)
      default:
        throw new RangeError(`wire type ${wire} is not known`)
    }
  }

  #take(count: number): Uint8Array {
    if (count > this.#bytes.length - this.#at) throw new RangeError('the message is cut off')
    return this.#bytes.subarray(this.#at, (this.#at += count))
  }
}

/** `value` must have the types of the message. Its other fields are left out. */
export function encodeMessage(message: Message, value: Readonly<Record<string, unknown>>): Buffer {
  const parts: Uint8Array[] = []
  for (const [number, { name, type, many }] of Object.entries(message)) {
    const given = value[name]
    if (given === undefined) continue
    const add = (item: unknown) => parts.push(encodeField(Number(number), type, item))
    if (many === 'list' && Array.isArray(given)) given.forEach(add)
    else if (many === 'map' && isFields(given)) {
      const entry = { 1: { name: 'key', type: 'string' }, 2: { name: 'value', type } } as const
      for (const [key, item] of Object.entries(given))
        parts.push(encodeField(Number(number), entry, { key, value: item }))
    } else add(given)
  }
  return Buffer.concat(parts)
}

function encodeField(number: number, type: Field['type'], value: unknown): Uint8Array {
  const isText = typeof type === 'object' || type === 'string' || type.endsWith('?')
  const tag = encodeVarint(BigInt((number << 3) | (isText ? delimited : varint)))
  if (!isText) return Buffer.concat([tag, encodeVarint(BigInt.asUintN(64, BigInt(Number(value))))])
  const bytes = encodeDelimited(type, value)
  return Buffer.concat([tag, encodeVarint(BigInt(bytes.length)), bytes])
}

function encodeDelimited(type: Field['type'], value: unknown): Uint8Array {
  if (typeof type === 'object') return encodeMessage(type, isFields(value) ? value : {})
  if (type === 'string') return Buffer.from(String(value))
  return encodeField(1, type === 'int64?' ? 'int64' : 'string', value)
}

function encodeVarint(value: bigint): Uint8Array {
  const bytes: number[] = []
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 0x80n) return Uint8Array.from([...bytes, Number(rest)])
    bytes.push(Number(rest & 0x7fn) | 0x80)
  }
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
