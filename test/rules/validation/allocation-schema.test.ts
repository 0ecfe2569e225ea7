/** Which batches of allocations are accepted. */
import { describe, expect, it } from 'vitest'
import { readBatch } from '../../../src/rules/validation/allocation-schema.js'

const one = (sessionID: string) => ({ buildID: 'arena', sessionID })
const guid = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'

describe('a batch', () => {
  it('is copied', () => {
    const requests = [one('a'), { ...one('b'), labels: { map: 'dust' } }]
    const read = readBatch(requests)
    expect(read).toEqual({ ok: true, value: requests })
    expect(read.ok && read.value[0]).not.toBe(requests[0])
  })

  it.each<[string, unknown, string, string]>([
    ['no array', { 0: one('a') }, 'requests', 'must be an array of at least one allocation request'],
    ['no request', [], 'requests', 'must be an array of at least one allocation request, but is []'],
    [
      'too many',
      Array.from({ length: 101 }, (_, i) => one(`s${i}`)),
      'requests',
      'must have at most 100 items, but has 101',
    ],
    ['no object', [one('a'), 7], 'requests[1]', 'must be an allocation request object, but is 7'],
    ['a bad field', [{ ...one('a'), sessionID: '' }], 'requests[0].sessionID', 'must be'],
    [
      'a session that is listed twice',
      [one('a'), one('b'), one('a')],
      'requests[2].sessionID',
      'must not repeat requests[0].sessionID, which is "a"',
    ],
    [
      'a GUID that is listed twice',
      [one(guid), one(guid.toUpperCase())],
      'requests[1].sessionID',
      'must not repeat requests[0].sessionID',
    ],
  ])('is refused: %s', (_, requests, field, message) => {
    const read = readBatch(requests)
    expect(read.ok ? undefined : read.problem.field).toBe(field)
    expect(read.ok ? undefined : read.problem.message).toContain(message)
  })
})
