/** How a value found in an input stands in a message: for strangers, and whatever it is. */
import { test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { isObject, shown } from '../../../src/rules/validation/problem.js'
import { anyJson, deepJson } from '../support.js'

const circle: unknown[] = []
circle.push(circle)

describe('shown', () => {
  it.each<[string, unknown, string]>([
    ['what is not there', undefined, 'absent'],
    ['null', null, 'null'],
    ['a string', 'a"b', '"a\\"b"'],
    ['an empty string', '', '""'],
    ['a number', -1.5, '-1.5'],
    ['no number', NaN, 'NaN'],
    ['an endless number', Infinity, 'Infinity'],
    ['a bigint', 5n, '5'],
    ['a boolean', false, 'false'],
    ['an array', [1, 'a'], '[1,"a"]'],
    ['an object', { a: null }, '{"a":null}'],
    ['a function', () => 1, 'function'],
    ['a circle', circle, 'an array'],
    ['an object with a bigint', { a: 5n }, 'an object'],
    ['a very deep array', deepJson, 'an array'],
  ])('says %s', (_what, value, text) => {
    expect(shown(value)).toBe(text)
  })

  it('keeps 60 characters and cuts what is longer', () => {
    expect(shown('x'.repeat(58))).toBe(`"${'x'.repeat(58)}"`)
    expect(shown('x'.repeat(59))).toBe(`"${'x'.repeat(56)}…`)
  })

  test.prop([anyJson()])('is short and never throws', (value) => {
    expect(shown(value).length).toBeLessThanOrEqual(60)
  })
})

describe('isObject', () => {
  it.each<[unknown, boolean]>([
    [{}, true],
    [Object.create(null), true],
    [[], false],
    [null, false],
    [undefined, false],
    ['a', false],
    [1, false],
  ])('%j: %s', (value, is) => {
    expect(isObject(value)).toBe(is)
  })
})
