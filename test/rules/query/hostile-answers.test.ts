/** Random and damaged answers to every protocol: reading them never throws, reads nothing around them, and ends soon. */
import { describe, expect, it } from 'vitest'
import type { PlayersReport } from '../../../src/rules/game/probes.js'
import { a2sQuery } from '../../../src/rules/query/a2s.js'
import { bedrockQuery } from '../../../src/rules/query/bedrock-ping.js'
import { minecraftQuery } from '../../../src/rules/query/minecraft-status.js'
import type { QueryStep } from '../../../src/rules/query/query-step.js'
import { sqpQuery } from '../../../src/rules/query/sqp.js'
import { bytes, next, seededRandom, text } from './answers.js'

const nonce = bytes('0102030405060708')
const info = bytes(
  'ffffffff49',
  '11',
  text('a'),
  '00',
  text('b'),
  '00',
  text('c'),
  '00',
  text('d'),
  '00',
  'b801',
  '021800',
)
const wholeInfo = bytes(
  info,
  text('dl'),
  '0001',
  text('1.0'),
  '00',
  'b1',
  '8769',
  '0100000000000000',
  text('cp3'),
  '00',
)
const list = bytes(
  'ffffffff44',
  '02',
  '00',
  text('amie'),
  '00',
  '0000000000000000',
  '01',
  text('ben'),
  '00',
  '0000000000000000',
)
const pongText = text('MCPE;Arena;766;1.21.50;3;10;1;world;')
const pong = bytes('1c', nonce, nonce, '00ffff00fefefefefdfdfdfd12345678', [0, pongText.byteLength], pongText)
const statusText = text('{"players":{"online":2,"sample":[{"name":"amie","id":"1"}]}}')
const status = bytes([statusText.byteLength + 2, 0, statusText.byteLength], statusText)

const challenged = next(a2sQuery(true), bytes('ffffffff41', '0badcafe'))
/** By name, what reads, and a good answer, which is damaged. */
const readers: readonly (readonly [
  string,
  QueryStep<PlayersReport>['read'] | ReturnType<typeof minecraft>['read'],
  Uint8Array,
])[] = [
  ['the info of A2S', challenged.read, wholeInfo],
  ['the players of A2S', next(challenged, wholeInfo).read, list],
  ['parts of A2S', next(challenged, wholeInfo).read, bytes('feffffff', '01000000', '0100', 'e004', list)],
  ['Bedrock', bedrockQuery(nonce).read, pong],
  ['the challenge of SQP', sqpQuery().read, bytes('00', '0badcafe')],
  [
    'the info of SQP',
    next(sqpQuery(), bytes('00', '0badcafe')).read,
    bytes('01', '0badcafe', '00010000', '0008', '00000004', '00030064'),
  ],
  ['Minecraft', minecraft().read, status],
]

function minecraft() {
  return minecraftQuery('localhost', 25_565)
}

/** A good answer with some bytes changed, taken out or put in; or nothing but random bytes. */
function hostile(good: Uint8Array, random: () => number): Uint8Array {
  const upTo = (max: number) => Math.floor(random() * max)
  if (random() < 0.2) return Uint8Array.from({ length: upTo(300) }, () => upTo(256))
  let result = [...good]
  for (let i = 0; i <= upTo(4); i++) {
    const at = upTo(result.length + 1)
    const kind = upTo(4)
    if (kind === 0) result[at] = upTo(256)
    if (kind === 1) result[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][upTo(6)] ?? 0
    if (kind === 2) result.splice(at, upTo(8))
    if (kind === 3) result.splice(at, 0, ...Array.from({ length: upTo(20) }, () => upTo(256)))
  }
  if (random() < 0.2) result = result.slice(0, upTo(result.length + 1))
  return Uint8Array.from(result)
}

/** The same bytes in the midst of others. */
function surrounded(content: Uint8Array, by: number): Uint8Array {
  const around = new Uint8Array(content.byteLength + 1_000).fill(by)
  around.set(content, 500)
  return around.subarray(500, 500 + content.byteLength)
}

function checkReport({ count, names }: PlayersReport): void {
  expect(Number.isInteger(count) && count >= 0 && count <= 10_000).toBe(true)
  expect(names.length).toBeLessThanOrEqual(Math.min(count, 1_000))
  for (const name of names) {
    expect(name).not.toMatch(/[\p{Cc}\p{Cs}]/u)
    expect(name.length).toBeGreaterThan(0)
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(256)
  }
}

describe('a hostile answer', () => {
  it.each(readers)('to %s is refused, or gives a credible report', (_, read, good) => {
    const random = seededRandom(20_261_129)
    const kinds = new Set<string>()
    expect(['done', 'next']).toContain(read(good).kind)
    const before = process.cpuUsage()
    for (let i = 0; i < 5_000; i++) {
      const content = hostile(good, random)
      const answer = read(surrounded(content, 0x00))
      kinds.add(answer.kind)
      if (answer.kind === 'done') checkReport(answer.result)
      if (i % 10 === 0) expect(JSON.stringify(read(surrounded(content, 0x41)))).toBe(JSON.stringify(answer))
    }
    const { user } = process.cpuUsage(before)
    expect(kinds.has('wrong')).toBe(true)
    // Some 10 µs each. A reader that takes quadratic time needs far longer.
    expect(user / 5_000).toBeLessThan(2_000)
  })

  it.each(readers)('to %s of the greatest size is read in time', (_, read, good) => {
    for (const filler of [0x00, 0x01, 0x41, 0x5b, 0x7f, 0x80, 0xff]) {
      const large = new Uint8Array(65_507).fill(filler)
      read(large)
      large.set(good)
      read(large)
    }
  })
})
