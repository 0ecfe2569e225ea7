/** Which of several servers that fit is taken. */
import { describe, expect, it } from 'vitest'
import type { AllocationOrder } from '../../../src/rules/model/allocation-request.js'
import { noData } from '../../../src/rules/lifecycle/server-data.js'
import { type Candidate, rankOf } from '../../../src/rules/planning/server-choice.js'

const server = (name: string, since: number, machineLoad: number, count?: number) => ({
  ...{ name, since, machineLoad },
  data: count === undefined ? undefined : { ...noData, counters: { rooms: { count, capacity: 10 } } },
})

const servers = [
  server('old', 1, 2, 3),
  server('middle', 2, 5, 9),
  server('late', 3, 5, 0),
  server('plain', 4, 0),
  server('twin', 5, 2, 3),
] satisfies (Candidate & { name: string })[]

describe('of servers that fit', () => {
  it.each<[AllocationOrder | undefined, string]>([
    [undefined, 'old middle late plain twin'],
    [{ by: 'first-ready' }, 'old middle late plain twin'],
    [{ by: 'newest' }, 'twin plain late middle old'],
    [{ by: 'packed' }, 'middle late old twin plain'],
    [{ by: 'distributed' }, 'plain old twin middle late'],
    [{ by: 'least-available', counter: 'rooms' }, 'middle old twin late plain'],
    [{ by: 'most-available', counter: 'rooms' }, 'late old twin middle plain'],
    [{ by: 'least-available', counter: 'constructor' }, 'old middle late plain twin'],
  ])('%j takes them in this order: %s', (order, names) => {
    for (const given of [servers, [...servers].reverse()]) {
      const sorted = [...given].sort((a, b) => rankOf(order, a) - rankOf(order, b) || a.since - b.since)
      expect(sorted.map(({ name }) => name).join(' ')).toBe(names)
    }
  })
})
