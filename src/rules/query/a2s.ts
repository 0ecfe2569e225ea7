/**
 * A2S, the queries of Steam's list of servers, over UDP, in little-endian order. Source: developer.valvesoftware.com/wiki/Server_queries.
 *
 * A packet begins with -1 as i32, then has a letter for its type. Requests: `T` asks for the server's info, `U` for its players. Answers:
 * `A` gives a challenge, with which the request is to be repeated, `I` is the info, `D` the players. A long answer is split, each part
 * beginning with -2. Pure.
 */
import type { PlayersReport } from '../game/probes.js'
import { ByteReader } from './byte-reader.js'
import { playersReport, countOfDigits } from './players-report.js'
import { type QueryAnswer, type QueryStep, type WrongAnswer, wrongAnswer } from './query-step.js'

const whole = 0xff_ff_ff_ff
const split = 0xff_ff_ff_fe
const challenged = 0x41 // A
const info = 0x49 // I
const players = 0x44 // D

const infoRequest = Uint8Array.from([
  ...[0xff, 0xff, 0xff, 0xff, 0x54],
  ...Array.from('Source Engine Query\0', (character) => character.charCodeAt(0)),
])
const playersRequest = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x55)
const noChallenge = 0xff_ff_ff_ff

/** A server gives one, or another if it has restarted since. */
const maxChallenges = 3
/** 255 players take 8 parts, each of at most 1,400 bytes. */
const maxParts = 32
const maxPartBytes = 4 * 1_024

/** Their full ids; the info has the lower 16 bits, and the full id as game id. */
const rust = 252_490
const counterStrike = 730

/**
 * Asks for the info, and for the players' names if somebody plays and `names` is set. Not every game answers that; without an answer the
 * report has no names. Bots are not counted.
 */
export function a2sQuery(names: boolean): QueryStep<PlayersReport> {
  return infoStep(names, undefined, 0)
}

function infoStep(names: boolean, challenge: number | undefined, challenges: number): QueryStep<PlayersReport> {
  const request = challenge === undefined ? infoRequest : withChallenge(infoRequest, challenge)
  return step(request, undefined, (type, reader) => {
    if (type === challenged) {
      const given = reader.u32()
      if (reader.isTruncated) return truncated
      if (given === challenge) return { kind: 'stale' }
      if (challenges === maxChallenges) return wrongAnswer('has a new challenge each time')
      return { kind: 'next', step: infoStep(names, given, challenges + 1) }
    }
    // The answer to an earlier query for players.
    if (type === players) return { kind: 'stale' }
    if (type !== info) return notA2S
    const read = readInfo(reader)
    if (read === undefined) return truncated
    const checked = playersReport(read.humans)
    if (checked.kind === 'wrong' || !names || read.humans === 0) return checked
    return { kind: 'next', step: playersStep(read, checked.result, noChallenge, 0) }
  })
}

function playersStep(
  { humans, bots, appId }: Info,
  unnamed: PlayersReport,
  challenge: number,
  challenges: number,
): QueryStep<PlayersReport> {
  return step(withChallenge(playersRequest, challenge), unnamed, (type, reader) => {
    if (type === challenged) {
      const given = reader.u32()
      if (reader.isTruncated) return truncated
      if (given === challenge) return { kind: 'stale' }
      if (challenges === maxChallenges) return { kind: 'done', result: unnamed }
      return { kind: 'next', step: playersStep({ humans, bots, appId }, unnamed, given, challenges + 1) }
    }
    // The request for the info was answered twice.
    if (type === info) return { kind: 'stale' }
    if (type !== players) return notA2S
    const listed = readNames(reader)
    if (listed === undefined) return truncated
    // Counter-Strike lists this name if it is set to hide who plays.
    const names = appId === counterStrike ? listed.filter((name) => name !== 'Max Players') : listed
    // The list does not say who is a bot.
    return playersReport(humans, bots > 0 && names.length > humans ? [] : names)
  })
}

interface Info {
  /** How many play, without bots. */
  readonly humans: number
  readonly bots: number
  readonly appId: number
}

/** Fields: protocol, name, map, folder, game, app id, players, maximum, bots, four of no interest, version, and extra data. */
function readInfo(reader: ByteReader): Info | undefined {
  reader.u8()
  for (let i = 0; i < 4; i++) reader.textUntilNul()
  const shortId = reader.u16()
  const all = reader.u8()
  reader.u8()
  const bots = reader.u8()
  reader.bytes(4)
  if (reader.isTruncated) return undefined
  reader.textUntilNul()
  const { tags, gameId } = readExtra(reader)
  // The lower 24 bits are the app's id; the rest is that of a mod.
  const appId = gameId === undefined ? shortId : Number(gameId & 0xff_ff_ffn)
  const counted = appId === rust ? countOfDigits(tags.find((tag) => /^cp\d+$/.test(tag))?.slice(2)) : undefined
  // One byte counts at most 255 players. Rust has more.
  // Of games that do not count their bots among the players, there may be more bots.
  return { humans: counted ?? (bots > all ? all : all - bots), bots: counted === undefined ? bots : 0, appId }
}

/** What follows the version, if anything: a byte of flags, and in this order what they announce. Some games leave it out or damage it. */
function readExtra(reader: ByteReader): { readonly tags: readonly string[]; readonly gameId?: bigint } {
  const flags = reader.u8()
  if ((flags & 0x80) !== 0) reader.u16() // port
  if ((flags & 0x10) !== 0) reader.u64() // Steam id
  if ((flags & 0x40) !== 0) {
    reader.u16() // port of SourceTV
    reader.textUntilNul() // and its name
  }
  const tags = (flags & 0x20) === 0 ? '' : reader.textUntilNul()
  const gameId = (flags & 0x01) === 0 ? undefined : reader.u64()
  if (reader.isTruncated) return { tags: [] }
  return { tags: tags.split(','), ...(gameId !== undefined && { gameId }) }
}

/** Per player: index, name, score as i32, seconds as f32. Those who are still connecting have no name yet. */
function readNames(reader: ByteReader): readonly string[] | undefined {
  const names: string[] = []
  const count = reader.u8()
  for (let i = 0; i < count; i++) {
    reader.u8()
    const name = reader.textUntilNul()
    reader.bytes(8)
    if (reader.isTruncated) return undefined
    if (name !== '') names.push(name)
  }
  return reader.isTruncated ? undefined : names
}

type Reading = (type: number, reader: ByteReader) => QueryAnswer<PlayersReport>

const truncated = wrongAnswer('is truncated')
const notA2S = wrongAnswer('is not A2S')

interface Parts {
  readonly id: number
  readonly total: number
  readonly byNumber: ReadonlyMap<number, Uint8Array>
}

/** A step that hands `read` whole answers, put together from their parts. */
function step(
  request: Uint8Array,
  otherwise: PlayersReport | undefined,
  read: Reading,
  parts?: Parts,
): QueryStep<PlayersReport> {
  const readWhole = (packet: Uint8Array): QueryAnswer<PlayersReport> => {
    const reader = new ByteReader(packet, 'little-endian')
    if (reader.u32() !== whole) return notA2S
    const type = reader.u8()
    return reader.isTruncated ? notA2S : read(type, reader)
  }
  return {
    request,
    ...(otherwise !== undefined && { otherwise }),
    read(datagram) {
      const reader = new ByteReader(datagram, 'little-endian')
      if (reader.u32() !== split) return readWhole(datagram)
      const joined = withPart(reader, parts)
      if (joined.kind === 'wrong') return joined
      const packet = packetOf(joined.parts)
      if (packet !== undefined) return readWhole(packet)
      return { kind: 'part', step: step(request, otherwise, read, joined.parts) }
    },
  }
}

/** Part of an answer: id, number of parts, number of this one from 0, the size that all but the last have, and its bytes. */
function withPart(reader: ByteReader, parts: Parts | undefined): { kind: 'joined'; parts: Parts } | WrongAnswer {
  const id = reader.u32()
  const total = reader.u8()
  const number = reader.u8()
  reader.u16()
  const bytes = reader.rest()
  if (reader.isTruncated || bytes.byteLength === 0) return truncated
  if (id >= 0x80_00_00_00) return wrongAnswer('is compressed with bzip2, which is not supported')
  if (total === 0 || total > maxParts || number >= total) return wrongAnswer('has a part with an invalid number')
  if (bytes.byteLength > maxPartBytes) return wrongAnswer(`has a part of more than ${maxPartBytes / 1_024} KiB`)
  // An answer to the same request sent again has another id. The newest answer is put together.
  const byNumber = new Map(parts?.id === id && parts.total === total ? parts.byNumber : [])
  byNumber.set(number, bytes.slice())
  return { kind: 'joined', parts: { id, total, byNumber } }
}

/** Undefined until all parts are there. */
function packetOf({ total, byNumber }: Parts): Uint8Array | undefined {
  if (byNumber.size < total) return undefined
  const ordered = Array.from({ length: total }, (_, number) => byNumber.get(number) ?? new Uint8Array())
  const packet = new Uint8Array(ordered.reduce((bytes, part) => bytes + part.byteLength, 0))
  let offset = 0
  for (const part of ordered) {
    packet.set(part, offset)
    offset += part.byteLength
  }
  return packet
}

function withChallenge(request: Uint8Array, challenge: number): Uint8Array {
  const bytes = new Uint8Array(request.byteLength + 4)
  bytes.set(request)
  new DataView(bytes.buffer).setUint32(request.byteLength, challenge, true)
  return bytes
}
