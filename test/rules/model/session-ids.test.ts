import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { isGuid, sessionKey } from '../../../src/rules/model/names.js'
import { readAllocationRequest } from '../../../src/rules/validation/allocation-schema.js'

const check = (sessionID: unknown) => {
  const checked = readAllocationRequest({ buildID: 'arena', sessionID })
  return checked.ok ? undefined : `${checked.problem.field} ${checked.problem.message}`
}
const must = 'sessionID must be a string of 1 to 128 visible characters, but'
const mustSee = 'sessionID must have only visible characters, and spaces between them, but has'

describe('sessionKey', () => {
  test.prop([fc.uuid()])('is the same for a GUID in upper and lower case', (id) => {
    expect(sessionKey(id.toUpperCase())).toBe(sessionKey(id))
  })

  test.prop([fc.uuid(), fc.uuid()])('differs for different GUIDs', (one, other) => {
    expect(sessionKey(one) === sessionKey(other)).toBe(one === other)
  })

  test.prop([fc.string(), fc.string()])('is the id itself for any other id', (one, other) => {
    fc.pre(!isGuid(one) && !isGuid(other))
    expect(sessionKey(one) === sessionKey(other)).toBe(one === other)
  })

  it('keeps the case of an id that is only as long as a GUID', () => {
    expect(sessionKey('Ranked/eu-7/2026-01-02/match-000042X')).toBe('Ranked/eu-7/2026-01-02/match-000042X')
  })

  it('does not normalize', () => {
    expect(sessionKey('caf\u00e9')).not.toBe(sessionKey('cafe\u0301'))
  })
})

describe('a sessionID', () => {
  it.each([
    'a',
    '0',
    'match 7',
    'ranked/eu-7:42',
    '"quoted" \\ back',
    "'; DROP TABLE servers; --",
    '../../etc/passwd',
    '...',
    '%2e%2e',
    'Übung',
    '試合',
    '🎮'.repeat(64),
    'x'.repeat(128),
    'D3B07384-D9A0-4D5B-8F3C-1F1C3F0E9A11',
  ])('may be %j', (id) => {
    expect(check(id)).toBeUndefined()
  })

  it.each([
    ['', `${must} is ""`],
    [7, `${must} is 7`],
    [undefined, `${must} is absent`],
    ['.', 'sessionID must not be ., because a URL cannot contain that'],
    ['..', 'sessionID must not be .., because a URL cannot contain that'],
    ['x'.repeat(129), `${must} has 129 characters`],
    [' a', `${mustSee} U+0020 at position 1`],
    ['a ', `${mustSee} U+0020 at position 2`],
    [' ', `${mustSee} U+0020 at position 1`],
    ['a\nb', `${mustSee} U+000A at position 2`],
    ['a\u0000', `${mustSee} U+0000 at position 2`],
    ['a\u007f', `${mustSee} U+007F at position 2`],
    ['a\u0085b', `${mustSee} U+0085 at position 2`],
    ['a\u00a0b', `${mustSee} U+00A0 at position 2`],
    ['a\u200bb', `${mustSee} U+200B at position 2`],
    ['a\u202eb', `${mustSee} U+202E at position 2`],
    ['a\u2028b', `${mustSee} U+2028 at position 2`],
    ['\ufeffa', `${mustSee} U+FEFF at position 1`],
    ['a\ud800', `${mustSee} U+D800 at position 2`],
  ])('may not be %j', (id, message) => {
    expect(check(id)).toBe(message)
  })
})
