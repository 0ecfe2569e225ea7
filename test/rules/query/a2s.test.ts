/** A2S: which requests follow which answers, and what is believed of these. */
import { describe, expect, it } from 'vitest'
import { a2sQuery } from '../../../src/rules/query/a2s.js'
import type { QueryStep } from '../../../src/rules/query/query-step.js'
import { bytes, damaged, next, text } from './answers.js'

const infoRequest = bytes('ffffffff54', text('Source Engine Query'), '00')
const challenge = bytes('ffffffff41', '0badcafe')

interface InfoFields {
  readonly players?: number
  readonly bots?: number
  readonly folder?: string
  readonly appId?: string
  readonly extra?: string
}

/** `appId` and `extra` are hexadecimal. */
function info({ players = 2, bots = 0, folder = 'tf', appId = 'b801', extra = '' }: InfoFields = {}): Uint8Array {
  const names = [text('Arena'), '00', text('dust'), '00', text(folder), '00', text('Game'), '00']
  return bytes('ffffffff49', '11', ...names, appId, [players, 24, bots], text('dl'), '0001', text('1.0'), '00', extra)
}

function players(...names: readonly string[]): Uint8Array {
  const entries = names.flatMap((name, i) => [[i], text(name), '00', '01000000', '00004842'])
  return bytes('ffffffff44', [names.length], ...entries)
}

/** A part of an answer, of those with this id. */
function part(id: string, total: number, number: number, content: Uint8Array): Uint8Array {
  return bytes('feffffff', id, [total, number], 'e004', content)
}

/** As for a real server: the info with its challenge, then the list of players with it. */
function asked(answer: Uint8Array): QueryStep<unknown> {
  return next(next(next(a2sQuery(true), challenge), answer), challenge)
}

const report = (count: number, ...names: readonly string[]) => ({ kind: 'done', result: { count, names } })

describe('an A2S query', () => {
  it('repeats each request with the challenge that it is given', () => {
    const first = a2sQuery(true)
    expect(first.request).toEqual(infoRequest)
    const second = next(first, challenge)
    expect(second.request).toEqual(bytes(infoRequest, '0badcafe'))
    const third = next(second, info())
    expect(third.request).toEqual(bytes('ffffffff55', 'ffffffff'))
    const fourth = next(third, challenge)
    expect(fourth.request).toEqual(bytes('ffffffff55', '0badcafe'))
    expect(fourth.read(players('amie', 'ben'))).toEqual(report(2, 'amie', 'ben'))
  })

  it('ends with the info if nobody plays, or if names are not wanted', () => {
    expect(a2sQuery(true).read(info({ players: 0 }))).toEqual(report(0))
    expect(a2sQuery(false).read(info())).toEqual(report(2))
  })

  it('has the number of players if the list of players never comes', () => {
    expect(asked(info()).otherwise).toEqual({ count: 2, names: [] })
    expect(a2sQuery(true).otherwise).toBeUndefined()
  })

  it('ignores an answer that comes twice', () => {
    expect(next(a2sQuery(true), challenge).read(challenge)).toEqual({ kind: 'stale' })
    expect(asked(info()).read(info())).toEqual({ kind: 'stale' })
    expect(asked(info()).read(challenge)).toEqual({ kind: 'stale' })
    expect(a2sQuery(true).read(players('amie'))).toEqual({ kind: 'stale' })
  })

  it('stops if each answer is another challenge', () => {
    let step = a2sQuery(true)
    for (const given of ['01000000', '02000000', '03000000']) step = next(step, bytes('ffffffff41', given))
    expect(step.read(bytes('ffffffff41', '04000000'))).toMatchObject({ kind: 'wrong' })
    let list = next(a2sQuery(true), info())
    for (const given of ['01000000', '02000000', '03000000']) list = next(list, bytes('ffffffff41', given))
    expect(list.read(bytes('ffffffff41', '04000000'))).toEqual(report(2))
  })

  it('does not count bots, nor names anybody who may be one', () => {
    expect(a2sQuery(false).read(info({ players: 5, bots: 3 }))).toEqual(report(2))
    // Some games count them apart.
    expect(a2sQuery(false).read(info({ players: 1, bots: 3 }))).toEqual(report(1))
    expect(asked(info({ players: 5, bots: 3 })).read(players('amie', 'ben', 'a', 'b', 'c'))).toEqual(report(2))
    expect(asked(info({ players: 5, bots: 3 })).read(players('amie', 'ben'))).toEqual(report(2, 'amie', 'ben'))
  })

  it('leaves out players without a name, and those who joined since', () => {
    expect(asked(info()).read(players('amie', ''))).toEqual(report(2, 'amie'))
    expect(asked(info()).read(players('amie', 'ben', 'cleo'))).toEqual(report(2, 'amie', 'ben'))
  })

  it('does not take the name for players who are hidden in Counter-Strike for one', () => {
    expect(asked(info({ players: 1, appId: 'da02' })).read(players('Max Players'))).toEqual(report(1))
    expect(asked(info({ players: 1 })).read(players('Max Players'))).toEqual(report(1, 'Max Players'))
  })

  it.each([
    ['the tags of Rust', bytes(text('mp500,cp321,v2592'), '00'), '4ada030000000000', 321],
    ['no such tag', bytes(text('mp500'), '00'), '4ada030000000000', 255],
    ['a tag that is no number', bytes(text('cpx'), '00'), '4ada030000000000', 255],
    ['tags of another game', bytes(text('cp321'), '00'), 'b801000000000000', 255],
  ])('counts with %s', (_, tags, gameId, count) => {
    const extra = bytes('b1', '8769', '0100000000000000', tags, gameId)
    const hex = Buffer.from(extra).toString('hex')
    expect(a2sQuery(false).read(info({ players: 255, appId: '4ada', extra: hex }))).toEqual(report(count))
  })

  it('refuses a tag with more players than there can be', () => {
    const extra = Buffer.from(bytes('21', text('cp999999'), '00', '4ada030000000000')).toString('hex')
    expect(a2sQuery(false).read(info({ extra }))).toMatchObject({ kind: 'wrong' })
  })

  it('does without extra data that is damaged', () => {
    expect(a2sQuery(false).read(info({ extra: 'ff01' }))).toEqual(report(2))
  })

  it('puts an answer in parts together, in any order', () => {
    const whole = players('amie', 'ben')
    const [a, b, c] = [whole.slice(0, 9), whole.slice(9, 20), whole.slice(20)]
    let step = asked(info())
    for (const datagram of [part('01000000', 3, 2, c), part('01000000', 3, 0, a), part('01000000', 3, 2, c)]) {
      const answer = step.read(datagram)
      if (answer.kind !== 'part') throw new Error(answer.kind)
      step = answer.step
    }
    expect(step.read(part('01000000', 3, 1, b))).toEqual(report(2, 'amie', 'ben'))
  })

  it('does not mix the parts of two answers', () => {
    const whole = players('amie', 'ben')
    const first = asked(info()).read(part('01000000', 2, 0, whole.slice(0, 9)))
    if (first.kind !== 'part') throw new Error(first.kind)
    const second = first.step.read(part('02000000', 2, 1, whole.slice(9)))
    if (second.kind !== 'part') throw new Error(second.kind)
    expect(second.step.read(part('02000000', 2, 0, whole.slice(0, 9)))).toEqual(report(2, 'amie', 'ben'))
  })

  it.each([
    ['compressed', part('01000080', 2, 0, players('amie')), 'is compressed with bzip2, which is not supported'],
    ['of none', part('01000000', 0, 0, players('amie')), 'has a part with an invalid number'],
    ['beyond the last', part('01000000', 2, 2, players('amie')), 'has a part with an invalid number'],
    ['of too many', part('01000000', 33, 0, players('amie')), 'has a part with an invalid number'],
    ['that is empty', part('01000000', 2, 0, new Uint8Array()), 'is truncated'],
    ['that is too large', part('01000000', 2, 0, new Uint8Array(4_097)), 'has a part of more than 4 KiB'],
    ['within a part', part('01000000', 1, 0, part('01000000', 1, 0, players('amie'))), 'is not A2S'],
  ])('refuses a part %s', (_, datagram, reason) => {
    expect(asked(info()).read(datagram)).toEqual({ kind: 'wrong', reason })
  })

  it.each([
    ['nothing', new Uint8Array()],
    ['another protocol', bytes(text('HTTP/1.1 400'))],
    ['the answer of old servers', bytes('ffffffff6d', text('127.0.0.1:27015'), '00')],
    ['a header alone', bytes('ffffffff')],
  ])('refuses %s', (_, datagram) => {
    expect(a2sQuery(true).read(datagram)).toEqual({ kind: 'wrong', reason: 'is not A2S' })
  })

  it('refuses an answer that ends too early, wherever it does', () => {
    // The version, with which it ends, is not needed.
    for (const cut of damaged(info()).slice(5, -4)) expect(a2sQuery(true).read(cut).kind).toBe('wrong')
    for (const cut of damaged(players('amie', 'ben')).slice(5)) expect(asked(info()).read(cut).kind).toBe('wrong')
  })
})
