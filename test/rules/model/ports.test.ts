/** Public ports of one machine. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { candidatePorts, defaultPortRange, isPort, readPortRange } from '../../../src/rules/model/ports.js'
import { anyJson, frozen } from '../support.js'

describe('isPort', () => {
  it.each<[unknown, boolean]>([
    [1, true],
    [7777, true],
    [65_535, true],
    [0, false],
    [65_536, false],
    [-1, false],
    [80.5, false],
    ['80', false],
    [NaN, false],
    [null, false],
    [undefined, false],
    [[80], false],
  ])('given %j returns %s', (value, is) => {
    expect(isPort(value)).toBe(is)
  })
})

describe('the port range', () => {
  it('is 10000–12000 by default', () => {
    expect(defaultPortRange).toEqual({ first: 10_000, last: 12_000 })
  })

  it.each([
    ['10000-12000', 10_000, 12_000],
    ['1-65535', 1, 65_535],
    ['7777-7777', 7_777, 7_777],
    [' 20000-20010\n', 20_000, 20_010],
  ])('is parsed from %j', (text, first, last) => {
    expect(readPortRange(text, 'ports')).toEqual({ ok: true, value: { first, last } })
  })

  it.each([
    '',
    '10000',
    '10000-',
    '-12000',
    '12000-10000',
    '0-10',
    '1-65536',
    '1-100000',
    '10000-12000-14000',
    '10000 - 12000',
    '1e4-12000',
    '10000.0-12000',
    'ten-twenty',
  ])('cannot be %j: the error names the option and the format', (text) => {
    expect(readPortRange(text, 'ports')).toEqual({
      ok: false,
      problem: {
        field: 'ports',
        message: `must be two ports from 1 to 65535, lower first, like 10000-12000, but is ${JSON.stringify(text)}`,
      },
    })
  })

  test.prop([fc.integer({ min: 1, max: 65_535 }), fc.integer({ min: 1, max: 65_535 })])(
    'survives formatting and parsing',
    (a, b) => {
      const range = { first: Math.min(a, b), last: Math.max(a, b) }
      expect(readPortRange(`${range.first}-${range.last}`, 'ports')).toEqual({ ok: true, value: range })
    },
  )

  test.prop([
    fc.oneof(
      fc.string(),
      anyJson().map((value) => JSON.stringify(value)),
    ),
  ])('rejects more than two numbers', (text) => {
    const checked = readPortRange(text, 'ports')
    if (checked.ok) expect([isPort(checked.value.first), isPort(checked.value.last)]).toEqual([true, true])
  })
})

describe('the ports to try', () => {
  const range = frozen({ first: 10, last: 14 })
  it.each<[string, readonly number[], number, readonly number[]]>([
    ['begin with the first port at first', [], 0, [10, 11, 12, 13, 14]],
    ['continue after the last port', [], 11, [12, 13, 14, 10, 11]],
    ['wrap around at the end of the range', [], 14, [10, 11, 12, 13, 14]],
    ['begin with the first port when the last one is outside the range', [], 999, [10, 11, 12, 13, 14]],
    ['skip ports in use', [10, 12, 13], 10, [11, 14]],
    ['include a port that was just released only when no other is left', [10, 11, 12, 14], 13, [13]],
    ['are none when all are in use', [10, 11, 12, 13, 14], 12, []],
  ])('%s', (_row, held, after, expected) => {
    expect([...candidatePorts(range, new Set(held), after)]).toEqual(expected)
  })

  test.prop([
    fc.record({ first: fc.integer({ min: 1, max: 50 }), size: fc.integer({ min: 1, max: 50 }) }),
    fc.uniqueArray(fc.nat({ max: 120 })),
    fc.nat({ max: 120 }),
  ])('are each free port once, counting up from the last one with wrap-around', ({ first, size }, holders, after) => {
    const held = new Set(holders)
    const last = first + size - 1
    const ports = [...candidatePorts({ first, last }, held, after)]
    const free = Array.from({ length: size }, (_, i) => first + i).filter((port) => !held.has(port))
    expect(ports.toSorted((a, b) => a - b)).toEqual(free)
    const begin = after >= first && after <= last ? after : last
    const turnsToReach = (port: number) => (port - begin - 1 + 2 * size) % size
    expect(ports).toEqual(ports.toSorted((a, b) => turnsToReach(a) - turnsToReach(b)))
  })

  it('are generated lazily', () => {
    const [first] = candidatePorts(defaultPortRange, new Set([10_000]), 0)
    expect(first).toBe(10_001)
  })
})
