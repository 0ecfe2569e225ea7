/** Names of builds and servers, and the session host id in heartbeat paths. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import {
  isBuildName,
  isNamespace,
  maxBuildNameLength,
  readSessionHostId,
  serverName,
  sessionHostId,
  suffixLength,
} from '../../../src/rules/model/names.js'
import { anyJson } from '../support.js'

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
