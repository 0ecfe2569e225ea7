/** Formatting of values in error messages. */
import { test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { isObject, shown } from '../../../src/rules/validation/problem.js'
import { anyJson, deepJson } from '../support.js'

const circle: unknown[] = []
circle.push(circle)

describe('shown', () => {
  it.each<[string, unknown, string]>([
    ['undefined', undefined, 'absent'],
    ['null', null, 'null'],
    ['a string', 'a"b', '"a\\"b"'],
    ['an empty string', '', '""'],
    ['a number', -1.5, '-1.5'],
    ['NaN', NaN, 'NaN'],
    ['Infinity', Infinity, 'Infinity'],
    ['a bigint', 5n, '5'],
    ['a boolean', false, 'false'],
    ['an array', [1, 'a'], '[1,"a"]'],
    ['an object', { a: null }, '{"a":null}'],
    ['a function', () => 1, 'function'],
    ['a circular array', circle, 'an array'],
    ['an object with a bigint', { a: 5n }, 'an object'],
  ])('formats %s', (_what, value, text) => {
    expect(shown(value)).toBe(text)
  })

  it('formats a very deep array, whether or not the engine can stringify it', () => {
    expect(['an array', `${'['.repeat(57)}…`]).toContain(shown(deepJson))
  })

  it('truncates text to 60 characters', () => {
    expect(shown('x'.repeat(58))).toBe(`"${'x'.repeat(58)}"`)
    expect(shown('x'.repeat(59))).toBe(`"${'x'.repeat(56)}…`)
  })

  test.prop([anyJson()])('returns at most 60 characters and never throws', (value) => {
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
  ])('given %j returns %s', (value, is) => {
    expect(isObject(value)).toBe(is)
  })
})
