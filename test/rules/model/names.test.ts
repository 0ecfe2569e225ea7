/** Names of builds and servers, and the session host id in heartbeat paths. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  isNamespace,
  maxBuildNameLength,
  readSessionHostId,
  secretMask,
  serverName,
  sessionHostId,
  suffixLength,
} from '../../../src/rules/model/names.js'
import { buildName } from '../../../src/rules/validation/shared-schemas.js'
import { compile } from '../../../src/rules/validation/validator.js'
import { anyJson } from '../support.js'

const checkBuildName = compile(buildName)
const isBuildName = (name: unknown) => checkBuildName(name).ok

const labels: readonly (readonly [string, unknown, boolean])[] = [
  ['a word', 'arena', true],
  ['one letter', 'a', true],
  ['one digit', '7', true],
  ['digits first', '2v2', true],
  ['inner dashes', 'arena-2--eu', true],
  ['nothing', '', false],
  ['a dash first', '-arena', false],
  ['a dash last', 'arena-', false],
  ['only a dash', '-', false],
  ['an upper-case letter', 'Arena', false],
  ['an underscore', 'are_na', false],
  ['a dot', 'are.na', false],
  ['a slash', 'are/na', false],
  ['a space', 'are na', false],
  ['a line break at the end', 'arena\n', false],
  ['a letter beyond ASCII', 'aréna', false],
  ['a number', 7, false],
  ['null', null, false],
  ['undefined', undefined, false],
  ['an array that converts to a name', ['arena'], false],
]

describe('a build name', () => {
  it.each(labels)('of %s', (_what, name, good) => {
    expect(isBuildName(name)).toBe(good)
  })

  it('has at most 57 characters', () => {
    expect(maxBuildNameLength).toBe(57)
    expect(isBuildName('a'.repeat(57))).toBe(true)
    expect(isBuildName('a'.repeat(58))).toBe(false)
  })
})

describe('a namespace', () => {
  it.each(labels)('of %s', (_what, name, good) => {
    expect(isNamespace(name)).toBe(good)
  })

  it('has at most 63 characters', () => {
    expect(isNamespace('a'.repeat(63))).toBe(true)
    expect(isNamespace('a'.repeat(64))).toBe(false)
  })

  test.prop([anyJson()])('never throws', (value) => {
    expect(isNamespace(value) || !isBuildName(value)).toBe(true)
  })
})

const bytes = fc.uint8Array({ minLength: suffixLength, maxLength: suffixLength })
const buildNames = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,55}[a-z0-9])?$/)

describe('a server name', () => {
  it.each([
    [[0, 1, 2, 3, 4], 'arena-abcde'],
    [[25, 26, 35, 36, 255], 'arena-z09ad'],
  ])('made from the random bytes %j is %s', (random, name) => {
    expect(serverName('arena', Uint8Array.from(random))).toBe(name)
  })

  test.prop([buildNames, bytes])('has the form <build>-<5 of [a-z0-9]> and is an RFC 1123 label', (build, random) => {
    const name = serverName(build, random)
    expect(name.startsWith(`${build}-`)).toBe(true)
    expect(name.slice(build.length)).toMatch(/^-[a-z0-9]{5}$/)
    expect(isNamespace(name), 'at most 63 characters').toBe(true)
  })

  it('can take each of 36⁵ values', () => {
    const drawn = new Set(Array.from({ length: 256 }, (_, byte) => serverName('a', Uint8Array.of(0, 0, 0, 0, byte))))
    expect(drawn.size).toBe(36)
  })
})

describe('the mask for a server’s log', () => {
  const token = '6f1c0123456789abcdef0123456789ab'
  const other = 'a'.repeat(32)

  it.each([
    [`Instance Id: arena-x7k2p.${token}`, 'Instance Id: arena-x7k2p.***'],
    [
      `PATCH http://h:1/v1/sessionHosts/arena-x7k2p.${token}/heartbeats`,
      'PATCH http://h:1/v1/sessionHosts/arena-x7k2p.***/heartbeats',
    ],
    [
      `{"sessionHostId":"arena-x7k2p.${token}"} arena-x7k2p.${token}`,
      '{"sessionHostId":"arena-x7k2p.***"} arena-x7k2p.***',
    ],
    [`an earlier server of this name: arena-x7k2p.${other}`, 'an earlier server of this name: arena-x7k2p.***'],
  ])('recognizes a session host id without the record: %s', (line, masked) => {
    expect(secretMask('arena-x7k2p', undefined)(line)).toBe(masked)
    expect(secretMask('arena-x7k2p', token)(line)).toBe(masked)
  })

  it('recognizes the secret alone while the record is known', () => {
    expect(secretMask('arena-x7k2p', token)(`token=${token};${token}`)).toBe('token=***;***')
  })

  it.each([1, 8, 31])(
    'recognizes a session host id of which %i characters of the secret are written so far',
    (length) => {
      const line = `Instance Id: arena-x7k2p.${token.slice(0, length)}`
      expect(secretMask('arena-x7k2p', undefined)(line)).toBe('Instance Id: arena-x7k2p.***')
      expect(secretMask('arena-x7k2p', token)(line)).toBe('Instance Id: arena-x7k2p.***')
    },
  )

  it.each([8, 31])('recognizes %i characters of the secret at the end and at the start of a line', (length) => {
    const mask = secretMask('arena-x7k2p', token)
    expect(mask(`token=${token.slice(0, length)}`)).toBe('token=***')
    expect(mask(`${token.slice(-length)}/heartbeats`)).toBe('***/heartbeats')
    expect(mask(`${token.slice(-length)} ${token} ${token.slice(0, length)}`)).toBe('*** *** ***')
    const inside = `a ${token.slice(0, length)} b ${token.slice(-length)} c`
    expect(mask(inside), 'a line is cut off only at its ends').toBe(inside)
  })

  it.each([
    ...['hello', `bundle.${other}`, `arena-x7k2p.${'a'.repeat(31)} `, 'arena-x7k2p.log', `arenaXx7k2p.${other}`, ''],
    ...['arena-x7k2p.', token.slice(0, 7), token.slice(-7)],
  ])('leaves other text as it is: %s', (line) => {
    expect(secretMask('arena-x7k2p', token)(line)).toBe(line)
  })

  it('accepts any name, also one that no server can have', () => {
    expect(secretMask('a(', undefined)(`a(.${other}`)).toBe('a(.***')
    expect(secretMask('.*', undefined)(`x.${other}`)).toBe(`x.${other}`)
    expect(secretMask('a(', '(.*)'.repeat(8))('ordinary text')).toBe('ordinary text')
    expect(secretMask('a', 'short')('not short, or sho')).toBe('not ***, or sho')
  })
})

describe('a session host id', () => {
  test.prop([buildNames, bytes, fc.base64String()])('splits into name and token', (build, random, token) => {
    const name = serverName(build, random)
    expect(readSessionHostId(sessionHostId(name, token))).toEqual({ name, token })
  })

  it('has the form <server name>.<token>', () => {
    expect(sessionHostId('arena-x7k2p', '6f1c')).toBe('arena-x7k2p.6f1c')
  })

  it.each(['', 'arena-x7k2p', '.6f1c', '.'])('cannot be %j', (id) => {
    expect(readSessionHostId(id)).toBeUndefined()
  })

  it('splits at the first dot', () => {
    expect(readSessionHostId('arena.6f.1c')).toEqual({ name: 'arena', token: '6f.1c' })
  })
})
