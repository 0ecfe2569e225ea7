/** Sizes in bytes, and how texts and lists are cut to them. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { cutList, cutText, fitsBytes, keptPlayers, sizeLimits, utf8Bytes } from '../../../src/rules/model/sizes.js'

const text = () => fc.string({ unit: 'binary', maxLength: 40 })
/** Also with lone surrogates. */
const units = () => fc.array(fc.nat(0xffff), { maxLength: 40 }).map((codes) => String.fromCharCode(...codes))

describe('the size of a text', () => {
  test.prop([fc.oneof(text(), units())])('is what it takes in UTF-8', (any) => {
    expect(utf8Bytes(any)).toBe(Buffer.byteLength(any))
  })

  test.prop([fc.oneof(text(), units()), fc.nat(120)])('fits if it has at most that many bytes', (any, most) => {
    expect(fitsBytes(any, most)).toBe(Buffer.byteLength(any) <= most)
  })
})

describe('a text that is too long', () => {
  it.each([
    ['abcdef', 6, 'abcdef'],
    ['abcdefg', 6, 'abc…'],
    ['ééééé', 6, 'é…'],
    ['😀😀😀', 11, '😀😀…'],
    ['😀😀😀', 10, '😀…'],
    ['abcd', 3, '…'],
  ])('%s is cut to %i bytes as %s', (long, most, cut) => expect(cutText(long, most)).toBe(cut))

  test.prop([fc.oneof(text(), units()), fc.integer({ min: 3, max: 60 })])(
    'becomes the longest possible beginning that ends with a whole character',
    (any, most) => {
      const cut = cutText(any, most)
      expect(utf8Bytes(cut)).toBeLessThanOrEqual(most)
      if (cut === any) return
      const kept = cut.slice(0, -1)
      expect(any.startsWith(kept)).toBe(true)
      const next = String.fromCodePoint(any.codePointAt(kept.length) ?? 0)
      expect(utf8Bytes(cut) + utf8Bytes(next)).toBeGreaterThan(most)
    },
  )
})

describe('a list in an event', () => {
  it('keeps its first entries, as many as a message may have bytes', () => {
    const keys = Array.from({ length: 1_000 }, (_, i) => `key-é-${i}`)
    const cut = cutList(keys)
    expect(cut).toEqual(keys.slice(0, cut.length))
    expect(utf8Bytes(cut.join(''))).toBeLessThanOrEqual(sizeLimits.messageBytes)
    expect(utf8Bytes(keys.slice(0, cut.length + 1).join(''))).toBeGreaterThan(sizeLimits.messageBytes)
    expect(cutList(['a', 'b'])).toEqual(['a', 'b'])
  })
})

describe('the players that a game reports', () => {
  it('are all kept within the limits, as the same list', () => {
    const guids = Array.from({ length: sizeLimits.reportedPlayers }, (_, i) => `${i}`.padStart(36, '0'))
    expect(keptPlayers(guids)).toBe(guids)
    const empty: readonly string[] = []
    expect(keptPlayers(empty)).toBe(empty)
  })

  it('are the first ones beyond the limit of their number', () => {
    const many = Array.from({ length: sizeLimits.reportedPlayers + 1 }, (_, i) => `p${i}`)
    expect(keptPlayers(many)).toEqual(many.slice(0, -1))
  })

  it('are the first ones beyond the limit of their size, in bytes', () => {
    const id = 'é'.repeat(sizeLimits.playerIDBytes / 2)
    const fitting = sizeLimits.reportedPlayersBytes / sizeLimits.playerIDBytes
    expect(keptPlayers(Array<string>(fitting + 1).fill(id))).toHaveLength(fitting)
  })

  it('are kept without ids that are too long, which are never shortened to the id of another player', () => {
    const long = 'é'.repeat(sizeLimits.playerIDBytes / 2) + 'x'
    expect(keptPlayers(['amie', long, 'bo'])).toEqual(['amie', 'bo'])
  })
})
