/**
 * The status of Minecraft Java servers since version 1.7, over TCP. Source: minecraft.wiki, Java_Edition_protocol/Server_List_Ping.
 *
 * A packet is its length and its type, both as VarInt, then its fields. A VarInt has 7 bits per byte, the lowest first; the highest bit
 * says that another byte follows. Requests: the handshake (type 0: version, host, port as u16, and 1 for "status"), then type 0 without
 * fields. Answer: type 0 with a text, which is JSON: `{players: {online, max, sample: [{name, id}]}, …}`. Pure.
 */
import type { PlayersReport } from '../game/probes.js'
import { isObject } from '../validation/problem.js'
import { textOfBytes } from './byte-reader.js'
import { parsedJson } from './json-players.js'
import { playersReport } from './players-report.js'
import { type StreamQuery, wrongAnswer, type WrongAnswer } from './query-step.js'

/** Of a status. With an icon of 64 by 64 pixels, one has at most some 20 KiB. */
const maxBytes = 64 * 1_024
/** No version of the game: "which one is yours?" */
const anyVersion = -1
/** The game itself allows no longer name. */
const maxHostBytes = 255
/** Players who do not want to be listed appear as "Anonymous Player" with this id, and lines of advertisement often have it. */
const nobody = /^[0-]*$/

/** `host` and `port` are sent to the server, since proxies serve several games by name. */
export function minecraftQuery(host: string, port: number): StreamQuery<PlayersReport> {
  const name = new TextEncoder().encode(host).subarray(0, maxHostBytes)
  const handshake = [0, ...varInt(anyVersion), ...varInt(name.byteLength), ...name, port >> 8, port & 0xff, 1]
  return {
    request: Uint8Array.from([...varInt(handshake.length), ...handshake, 1, 0]),
    read(received) {
      const length = readVarInt(received, 0)
      if (length === undefined) return { kind: 'more', bytes: received.byteLength + 1 }
      if (length === 'invalid') return notMinecraft
      if (length.value < 2) return notMinecraft
      if (length.value > maxBytes)
        return wrongAnswer(`has more than ${maxBytes / 1_024} KiB, or is not that of Minecraft`)
      const end = length.end + length.value
      // A type other than 0 shows in the first byte, so whoever speaks another protocol is not waited for.
      const type = received[length.end]
      if (type !== undefined && type !== 0) return notMinecraft
      if (received.byteLength < end) return { kind: 'more', bytes: end }
      return readStatus(received.subarray(length.end + 1, end))
    },
  }
}

const notMinecraft = wrongAnswer('is not a status of Minecraft')

function readStatus(fields: Uint8Array): { kind: 'done'; result: PlayersReport } | WrongAnswer {
  const length = readVarInt(fields, 0)
  if (length === undefined || length === 'invalid') return notMinecraft
  // Some servers with mods add more fields after the text.
  if (length.value < 0 || length.value > fields.byteLength - length.end) return wrongAnswer('is truncated')
  const status = parsedJson(textOfBytes(fields.subarray(length.end, length.end + length.value)))
  if (status === undefined) return wrongAnswer('is not JSON')
  const players = isObject(status.value) ? status.value['players'] : undefined
  if (!isObject(players)) return playersReport(undefined)
  return playersReport(players['online'], sampledNames(players['sample']))
}

/** Servers also use the sample for lines of text: with § before a colour, or without a player's id. */
function* sampledNames(sample: unknown): Iterable<string> {
  if (!Array.isArray(sample)) return
  for (const entry of sample) {
    if (!isObject(entry)) continue
    const { name, id } = entry
    if (typeof name !== 'string' || typeof id !== 'string' || nobody.test(id) || name.includes('§')) continue
    yield name
  }
}

function varInt(value: number): readonly number[] {
  const bytes: number[] = []
  let left = value >>> 0
  while (left > 0x7f) {
    bytes.push((left & 0x7f) | 0x80)
    left >>>= 7
  }
  return [...bytes, left]
}

/** Undefined if it goes on beyond the end. Invalid if it has more than 5 bytes. */
function readVarInt(bytes: Uint8Array, offset: number): { value: number; end: number } | 'invalid' | undefined {
  let value = 0
  for (let i = 0; i < 5; i++) {
    const byte = bytes[offset + i]
    if (byte === undefined) return undefined
    value |= (byte & 0x7f) << (7 * i)
    if (byte < 0x80) return { value, end: offset + i + 1 }
  }
  return 'invalid'
}
