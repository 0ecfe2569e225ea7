import { describe, expect, it } from 'vitest'
import { afterAnnouncement, checkMaintenanceTime, transition } from '../../../src/rules/lifecycle/lifecycle.js'
import { maintenanceSources, serverStates } from '../../../src/rules/model/resources.js'
import { completeServer, minimalServer } from '../../../src/testing/records.js'

const now = 1_700_000_000_000
const hour = 3_600_000
const ref = { namespace: 'default', name: 'arena-1' }

describe('the time of an announcement', () => {
  it.each([
    [now + 1, now],
    [now + hour, now + hour],
    [now + hour + 999, now + hour],
    [new Date(now + 2 * hour + 1), now + 2 * hour],
    [now + 365 * 24 * hour, now + 365 * 24 * hour],
  ])('%s is valid and rounded down to a second', (at, ms) => {
    expect(checkMaintenanceTime(at, now)).toEqual({ ok: true, value: ms })
  })

  it.each([
    [now, '2023-11-14T22:13:20.000Z'],
    [now - hour, '2023-11-14T21:13:20.000Z'],
    [now + 365 * 24 * hour + 1, '2024-11-13T22:13:20.001Z'],
    [NaN, 'NaN'],
    [new Date(NaN), 'NaN'],
    [Infinity, 'Infinity'],
    [1e300, '1e+300'],
    ['2026-01-02T03:04:05Z', '"2026-01-02T03:04:05Z"'],
    [undefined, 'absent'],
    [null, 'null'],
  ])('%s is rejected with its value', (at, found) => {
    expect(checkMaintenanceTime(at, now)).toEqual({
      ok: false,
      problem: { field: 'at', message: `must be a time in the future, at most 365 days ahead, but is ${found}` },
    })
  })
})

describe('of two announcements', () => {
  const times = { server: now + 3 * hour, node: now + 2 * hour, backend: now + hour }

  it.each(maintenanceSources.flatMap((first) => maintenanceSources.map((second) => [first, second] as const)))(
    'made for the %s and then for the %s, the more specific one applies, or else the later one',
    (first, second) => {
      const current = { at: times[first], source: first }
      const next = { at: times[second] + 1_000, source: second }
      const rank = maintenanceSources.indexOf.bind(maintenanceSources)
      expect(afterAnnouncement(current, next, now)).toBe(rank(first) < rank(second) ? current : next)
    },
  )

  it('one in the past gives way', () => {
    const next = { at: now + hour, source: 'backend' } as const
    expect(afterAnnouncement({ at: now, source: 'server' }, next, now)).toBe(next)
    expect(afterAnnouncement(undefined, next, now)).toBe(next)
  })
})

describe('a server', () => {
  const maintenance = { at: now + hour, source: 'node' } as const

  it.each(serverStates.filter((state) => state !== 'Terminating'))(
    'that is %s keeps its state with maintenance',
    (state) => {
      const server = { ...minimalServer(ref), state }
      const announced = transition(server, { type: 'maintenance', maintenance }, now)
      expect(announced).toMatchObject({ state, maintenance })
      expect(transition(announced, { type: 'maintenance', maintenance: { ...maintenance } }, now)).toBe(announced)
      expect(transition(announced, { type: 'maintenance', maintenance: undefined }, now).maintenance).toBeUndefined()
      expect(transition(server, { type: 'maintenance', maintenance: undefined }, now)).toBe(server)
    },
  )

  it('that is Terminating stays unchanged', () => {
    const server = completeServer(ref)
    expect(transition(server, { type: 'maintenance', maintenance: undefined }, now)).toBe(server)
  })
})
