/** Minecraft Java and Bedrock, SQP, JSON and plain datagrams: their requests, and what is believed of the answers. */
import { describe, expect, it } from 'vitest'
import { bedrockQuery } from '../../../src/rules/query/bedrock-ping.js'
import { playersInJson } from '../../../src/rules/query/json-players.js'
import { minecraftQuery } from '../../../src/rules/query/minecraft-status.js'
import { playersReport } from '../../../src/rules/query/players-report.js'
import { sqpQuery } from '../../../src/rules/query/sqp.js'
import { udpProbe } from '../../../src/rules/query/udp-probe.js'
import { bytes, damaged, next, text } from './answers.js'

const report = (count: number, ...names: readonly string[]) => ({ kind: 'done', result: { count, names } })
const wrong = (reason: string) => ({ kind: 'wrong', reason })
const noCount = wrong('has no number of players from 0 to 10000')

function varInt(value: number): readonly number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varInt(value >>> 7)]
}

/** The packet with a status, which may be anything. */
function status(content: unknown): Uint8Array {
  const json = text(typeof content === 'string' ? content : JSON.stringify(content))
  const fields = bytes([0], varInt(json.byteLength), json)
  return bytes(varInt(fields.byteLength), fields)
}

describe('a query of Minecraft', () => {
  const query = minecraftQuery('play.example', 25_565)
  const id = '4566e69f-c907-48ee-8d71-d7ba5aa00d20'

  it('sends the handshake with host and port, and asks for the status', () => {
    const handshake = bytes('00', 'ffffffff0f', [12], text('play.example'), '63dd', '01')
    expect(query.request).toEqual(bytes([handshake.byteLength], handshake, '0100'))
  })

  it('cuts a host name that is too long', () => {
    expect(minecraftQuery('x'.repeat(70_000), 1).request.byteLength).toBe(2 + 1 + 5 + 2 + 255 + 3 + 2)
  })

  it('reads the number of players, and the names of some', () => {
    const sample = [
      { name: 'amie', id },
      { name: 'ben', id },
    ]
    expect(query.read(status({ players: { online: 7, max: 20, sample } }))).toEqual(report(7, 'amie', 'ben'))
    expect(query.read(status({ players: { online: 7, max: 20 } }))).toEqual(report(7))
  })

  it('takes lines of text in the sample for what they are', () => {
    const sample = [
      { name: '§aWelcome to the Arena', id },
      { name: 'Visit our shop', id: '00000000-0000-0000-0000-000000000000' },
      { name: 'Anonymous Player', id: '00000000-0000-0000-0000-000000000000' },
      { name: { text: 'chat' }, id },
      { name: 'no id' },
      'text',
      null,
      { name: 'amie', id },
    ]
    expect(query.read(status({ players: { online: 7, sample } }))).toEqual(report(7, 'amie'))
    expect(query.read(status({ players: { online: 7, sample: 'amie' } }))).toEqual(report(7))
  })

  it('waits until the packet is whole', () => {
    const whole = status({ description: 'x'.repeat(500), players: { online: 1 } })
    expect(query.read(new Uint8Array())).toEqual({ kind: 'more', bytes: 1 })
    expect(query.read(whole.slice(0, 1))).toEqual({ kind: 'more', bytes: 2 })
    for (const cut of damaged(whole).slice(2))
      expect(query.read(cut)).toEqual({ kind: 'more', bytes: whole.byteLength })
    expect(query.read(bytes(whole, '0901'))).toEqual(report(1))
  })

  it('ignores fields after the text', () => {
    const json = text('{"players":{"online":1}}')
    const fields = bytes([0], varInt(json.byteLength), json, '010203')
    expect(query.read(bytes(varInt(fields.byteLength), fields))).toEqual(report(1))
  })

  it.each([
    ['no players', status({ description: 'x' }), noCount],
    ['no object', status('7'), noCount],
    ['null', status('null'), noCount],
    ['players that are no object', status({ players: [] }), noCount],
    ['a negative number', status({ players: { online: -1 } }), noCount],
    ['a fraction', status({ players: { online: 1.5 } }), noCount],
    ['a text', status({ players: { online: '1' } }), noCount],
    ['far too many', status({ players: { online: 2_147_483_647 } }), noCount],
    ['no JSON', status('{'), wrong('is not JSON')],
    ['JSON that is too deep', status('['.repeat(60_000)), wrong('is not JSON')],
    ['a text longer than the packet', bytes('0500', 'ff01', '7b7d'), wrong('is truncated')],
    ['a text of negative length', bytes('0800', 'ffffffff0f', '7b7d'), wrong('is truncated')],
    ['a text without length', bytes('0200', 'ff'), wrong('is not a status of Minecraft')],
    ['another packet', bytes('0901', '0000000000000000'), wrong('is not a status of Minecraft')],
    ['another packet, of which little has arrived', bytes('ff01', '05'), wrong('is not a status of Minecraft')],
    ['an empty packet', bytes('00'), wrong('is not a status of Minecraft')],
    ['a negative length', bytes('ffffffff0f'), wrong('is not a status of Minecraft')],
    ['an endless length', bytes('ffffffffffff'), wrong('is not a status of Minecraft')],
    ['HTTP', bytes(text('HTTP/1.1 400 Bad Request\r\n')), wrong('is not a status of Minecraft')],
    ['too much', bytes(varInt(70_000), '00'), wrong('has more than 64 KiB, or is not that of Minecraft')],
  ])('refuses %s', (_, received, answer) => {
    expect(query.read(received)).toEqual(answer)
  })
})

describe('a query of Bedrock', () => {
  const magic = '00ffff00fefefefefdfdfdfd12345678'
  const nonce = bytes('0102030405060708')
  const query = bedrockQuery(nonce)
  const pong = (content: string, time = '0102030405060708', mark = magic) =>
    bytes('1c', time, 'aaaaaaaaaaaaaaaa', mark, [0, text(content).byteLength], text(content))

  it('sends an unconnected ping', () => {
    expect(query.request).toEqual(bytes('01', nonce, magic, '0000000000000000'))
  })

  it.each([
    ['a server', 'MCPE;Arena;766;1.21.50;3;10;123;world;Survival;1;19132;19133;', report(3)],
    ['as little as there may be', 'MCPE;Arena;766;1.21.50;3', report(3)],
    ['a name with a semicolon', 'MCPE;a\\;b;766;1.21.50;3;10', report(3)],
    ['a name with a semicolon that shifts the fields', 'MCPE;a;b;766;1.21.50;3;10', noCount],
    ['a negative number', 'MCPE;Arena;766;1.21.50;-1;10', noCount],
    ['far too many', 'MCPE;Arena;766;1.21.50;99999999999999999999;10', noCount],
    ['no number', 'MCPE;Arena;766;1.21.50;;10', noCount],
    ['no text', '', noCount],
  ])('reads %s', (_, content, answer) => {
    expect(query.read(pong(content))).toEqual(answer)
  })

  it('ignores the answer to another request', () => {
    expect(query.read(pong('MCPE;Arena;766;1.21.50;3;10', '0102030405060709'))).toEqual({ kind: 'stale' })
  })

  it('refuses another protocol, and an answer that ends too early', () => {
    const whole = pong('MCPE;Arena;766;1.21.50;3;10')
    expect(query.read(pong('x', undefined, magic.replaceAll('f', 'e')))).toMatchObject(
      wrong('is not a pong of Minecraft Bedrock'),
    )
    expect(query.read(text('hello'))).toMatchObject(wrong('is not a pong of Minecraft Bedrock'))
    for (const cut of damaged(whole).slice(1)) expect(query.read(cut)).toEqual(wrong('is truncated'))
  })
})

describe('a query of SQP', () => {
  const challenge = bytes('00', '0badcafe')
  const asked = next(sqpQuery(), challenge)
  const info = (players: string, given = '0badcafe', packet = 0) =>
    bytes('01', given, '0001', [packet, 0], '0009', '00000005', players, '0064', '00')

  it('asks for a challenge, then for the info with it', () => {
    expect(sqpQuery().request).toEqual(bytes('0000000000'))
    expect(asked.request).toEqual(bytes('01', '0badcafe', '0001', '01'))
    expect(asked.read(info('0003'))).toEqual(report(3))
    expect(asked.read(info('0000'))).toEqual(report(0))
  })

  it('ignores what belongs to another request', () => {
    expect(sqpQuery().read(info('0003'))).toEqual({ kind: 'stale' })
    expect(asked.read(challenge)).toEqual({ kind: 'stale' })
    expect(asked.read(info('0003', '0badcaff'))).toEqual({ kind: 'stale' })
    expect(asked.read(info('0003', '0badcafe', 1))).toEqual({ kind: 'stale' })
  })

  it('refuses too many players, another protocol, and an answer that ends too early', () => {
    expect(asked.read(info('ffff'))).toEqual(noCount)
    expect(asked.read(text('hello'))).toEqual(wrong('is not SQP'))
    expect(sqpQuery().read(text('hello'))).toEqual(wrong('is not SQP'))
    expect(sqpQuery().read(bytes('000bad'))).toEqual(wrong('is truncated'))
    expect(asked.read(bytes('01', '0badcafe', '0001', '0000', '0002', '0000'))).toEqual(wrong('is truncated'))
    for (const cut of damaged(info('0003')).slice(1)) expect(asked.read(cut)).toEqual(wrong('is truncated'))
  })
})

describe('a datagram of the build', () => {
  it.each([
    ['an answer that begins as expected', 'Ff01', 'ff010203', true],
    ['an answer that is all that was expected', 'ff01', 'ff01', true],
    ['another answer', 'ff01', 'fe01', false],
    ['an answer that is too short', 'ff01', 'ff', false],
    ['any answer, if none is expected', undefined, '', true],
  ])('reads %s', (_, expected, answer, passes) => {
    const probe = udpProbe('00aB', expected)
    expect(probe?.request).toEqual(bytes('00ab'))
    expect(probe?.read(bytes(answer)).kind).toBe(passes ? 'done' : 'wrong')
  })

  it('is none if it is not hexadecimal', () => {
    expect(udpProbe('0')).toBeUndefined()
    expect(udpProbe('0x')).toBeUndefined()
    expect(udpProbe('00', 'zz')).toBeUndefined()
  })
})

describe('players in JSON', () => {
  it.each([
    ['players.online', '{"players":{"online":3}}', report(3)],
    ['servers.1.count', '{"servers":[{"count":1},{"count":2}]}', report(2)],
    ['players', '{"players":["amie","ben"]}', report(2, 'amie', 'ben')],
    [
      'players',
      '{"players":[{"name":"amie","id":1},{"id":"ben"},{"id":7},{"x":1},null,true,[]]}',
      report(7, 'amie', 'ben', '7'),
    ],
    ['players', '{"players":[]}', report(0)],
    ['0', '[5]', report(5)],
    ['players', '{"players":-1}', noCount],
    ['players', '{"players":1e9}', noCount],
    ['players', `{"players":[${Array.from({ length: 10_001 }, () => 1).join()}]}`, noCount],
    ['players', '{"players":"3"}', wrong('has neither a number nor a list at players')],
    ['constructor.length', '{}', wrong('has neither a number nor a list at constructor.length')],
    ['players.length', '{"players":[1]}', wrong('has neither a number nor a list at players.length')],
    ['players.-1', '{"players":[1]}', wrong('has neither a number nor a list at players.-1')],
    ['a.b.c', '{"a":null}', wrong('has neither a number nor a list at a.b.c')],
    ['players', '', wrong('is not JSON')],
    ['players', '<html>', wrong('is not JSON')],
  ])('are read at %s of %s', (field, document, answer) => {
    expect(playersInJson(document, field)).toEqual(answer)
  })
})

describe('names', () => {
  it.each([
    ['control characters and NULs', ['a\0m\u001bi\u009fe\r\n'], ['amie']],
    ['what reverses the direction', ['\u202eamie\u2066'], ['amie']],
    ['lone surrogates', ['a\ud800mie'], ['amie']],
    ['spaces around', ['  amie  '], ['amie']],
    ['empty names', ['', ' ', '\0'], []],
    ['the same name again', ['amie', 'amie\0', 'ben'], ['amie', 'ben']],
  ])('lose %s', (_, given, kept) => {
    expect(playersReport(10, given)).toEqual(report(10, ...kept))
  })

  it('keep what belongs to a language', () => {
    const names = ['Zoë', '村田', '👩‍🚀', 'עדי']
    expect(playersReport(10, names)).toEqual(report(10, ...names))
  })

  it('have at most 128 characters and 256 bytes, and there are at most 1,000', () => {
    expect(playersReport(1, ['x'.repeat(70_000)])).toEqual(report(1, 'x'.repeat(128)))
    const cut = playersReport(1, ['村'.repeat(200)])
    if (cut.kind === 'wrong') throw new Error(cut.reason)
    expect(Buffer.byteLength(cut.result.names[0] ?? '')).toBeLessThanOrEqual(256)
    const many = playersReport(
      5_000,
      Array.from({ length: 5_000 }, (_, i) => `player ${i}`),
    )
    if (many.kind === 'wrong') throw new Error(many.reason)
    expect([many.result.count, many.result.names.length]).toEqual([5_000, 1_000])
  })

  it('are no more than the players', () => {
    expect(playersReport(1, ['amie', 'ben'])).toEqual(report(1, 'amie'))
  })
})
