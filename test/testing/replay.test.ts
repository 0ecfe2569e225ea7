/** Days of demand, recorded or invented, that are replayed on the real engine. */
import { describe, expect, it } from 'vitest'
import { createFleet } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import {
  type DemandShape,
  demandShapes,
  fixedNumberFor,
  inventDemand,
  replayDemand,
  type ReplayOptions,
  virtualClock,
} from 'gamekeeper/testing'

const sum = (numbers: readonly number[] | undefined) => (numbers ?? []).reduce((all, one) => all + one, 0)
const demand = inventDemand({ shape: 'evening-peak', sessions: 400, sessionSeconds: 900, startSeconds: 20, days: 2 })
const day = '2026-01-30'

describe('an invented day', () => {
  it.each(demandShapes)('%s has as many sessions as asked for, and as many that ended', (shape) => {
    const { days } = inventDemand({ shape, sessions: 500 })
    expect(days).toHaveLength(9)
    expect(days.at(-1)).toMatchObject({ day })
    expect(sum(days.at(-1)?.asked)).toBe(500)
    const ended = days.map(({ sessions }) => sum(Object.values(sessions).flatMap((of) => Object.values(of))))
    expect(sum(ended)).toBeGreaterThan(0.95 * sum(days.map(({ asked }) => sum(asked))) - 25)
    for (const { inUse, asked } of days) {
      expect(inUse).toHaveLength(1_440)
      expect(Math.max(...inUse)).toBeGreaterThan(Math.max(...asked) / 2)
    }
  })

  it('is quiet at night and busy in the evening, or what its name says', () => {
    const between = (shape: DemandShape, from: number, to: number) =>
      sum(
        inventDemand({ shape, sessions: 10_000 })
          .days.at(-1)
          ?.asked.slice(from * 60, to * 60),
      )
    expect(between('evening-peak', 19, 22)).toBeGreaterThan(5 * between('evening-peak', 3, 6))
    expect(between('flat', 19, 22)).toBeCloseTo(1_250, -3)
    expect(between('launch-day', 18, 19)).toBeGreaterThan(2_500)
    const bursts = inventDemand({ shape: 'tournament', sessions: 10_000 }).days.at(-1)?.asked
    expect(bursts?.[20 * 60]).toBeGreaterThan(10 * (bursts?.[20 * 60 + 5] ?? Infinity))
  })

  it('is the same for the same seed, and another for another', () => {
    const options = { shape: 'flat', sessions: 50 } as const
    expect(inventDemand(options)).toEqual(inventDemand(options))
    expect(inventDemand({ ...options, seed: 2 })).not.toEqual(inventDemand(options))
  })

  it.each([
    [{ shape: 'round' as DemandShape, sessions: 5 }, 'inventDemand: shape must be one of evening-peak, flat'],
    [{ shape: 'flat', sessions: 0.5 }, 'inventDemand: sessions must be a whole number from 1 to 1000000, but is 0.5'],
    [{ shape: 'flat', sessions: 5, days: 0 }, 'inventDemand: days must be from 1 to 31, but is 0'],
    [{ shape: 'flat', sessions: 5, day: 'Friday' }, 'inventDemand: day must be a date such as 2026-01-30'],
  ] as const)('%j is refused', (options, message) => expect(() => inventDemand(options)).toThrow(message))
})

describe('a replayed day', () => {
  const options = (change: Partial<ReplayOptions> = {}): ReplayOptions => ({
    demand,
    day,
    policy: { standingBy: 10, max: 200 },
    ...change,
  })

  it('says who was refused, how long callers waited, and what it cost', async () => {
    const outcome = await replayDemand(options())
    expect(outcome).toMatchObject({ day, callers: 400, served: 400, refused: 0 })
    expect(outcome.waitSeconds).toEqual({ p50: 0, p95: 0, p99: 0, longest: 0 })
    expect(outcome.minutes).toHaveLength(1_440)
    // 400 sessions of a quarter of an hour, and ten idle servers all day.
    expect(outcome.serverHours - outcome.idleServerHours).toBeCloseTo(100, -1)
    expect(outcome.idleServerHours).toBeCloseTo(240, -1)
    expect(Math.max(...outcome.minutes.map(({ inUse }) => inUse))).toBeLessThanOrEqual(outcome.peakServers)
    expect(await replayDemand(options())).toEqual(outcome)
  })

  it('refuses all if nothing is kept ready, and serves them if they wait', async () => {
    expect(await replayDemand(options({ policy: { standingBy: 0, max: 200 } }))).toMatchObject({ refused: 400 })
    const waited = await replayDemand(options({ policy: { standingBy: 0, max: 200 }, waitSeconds: 40 }))
    expect(waited).toMatchObject({ refused: 0, served: 400 })
    expect(waited.waitSeconds.p50).toBeGreaterThan(5)
    expect(waited.waitSeconds.longest).toBeLessThanOrEqual(31)
  })

  it('begins with the matches of the evening before', async () => {
    const [first, last] = demand.days
    const inUse = [30, ...(last?.inUse.slice(1) ?? [])]
    const busy = { ...demand, days: [first, last && { ...last, inUse }].filter((one) => one !== undefined) }
    const outcome = await replayDemand(options({ demand: busy }))
    expect(outcome.minutes[0]?.inUse).toBeGreaterThanOrEqual(20)
    expect(outcome.minutes[30]?.inUse).toBeLessThan(10)
    expect(outcome.callers).toBe(400)
  })

  it('follows scaling policies', async () => {
    const scaling = { buffer: { min: 1, percent: 50 } }
    const outcome = await replayDemand(options({ policy: { standingBy: 0, max: 200, scaling } }))
    expect(outcome.idleServerHours).toBeLessThan(100)
    expect(outcome.refused).toBeGreaterThan(0)
  })

  it('is the one with the most callers if none is named', async () => {
    const callers = demand.days.map(({ asked }) => sum(asked))
    const busiest = demand.days[callers.indexOf(Math.max(...callers))]
    expect((await replayDemand({ demand, policy: { standingBy: 1, max: 9 } })).day).toBe(busiest?.day)
  })

  it('can be compared with the smallest fixed number', async () => {
    const found = await fixedNumberFor(options(), 3)
    expect(found?.outcome.refused).toBeLessThanOrEqual(3)
    const fewer = { standingBy: (found?.standingBy ?? 0) - 1, max: 200 }
    expect((await replayDemand(options({ policy: fewer }))).refused).toBeGreaterThan(3)
    expect(await fixedNumberFor(options({ policy: { standingBy: 0, max: 1 } }), 3)).toBeUndefined()
  })

  it('can be interrupted', async () => {
    const signal = AbortSignal.abort()
    await expect(replayDemand(options({ signal }))).rejects.toMatchObject({ code: 'aborted' })
  })

  it.each<[string, Partial<ReplayOptions>, string]>([
    [
      'another day',
      { day: '2026-02-01' },
      'replayDemand: day "2026-02-01" is not recorded; there are 2026-01-29, 2026-01-30',
    ],
    ['no recording', { demand: JSON.parse('{"days":[{}]}') }, 'replayDemand: demand: days[0].day must be a date'],
    ['bad numbers', { policy: { standingBy: 9, max: 3 } }, 'spec.standingBy must be'],
    [
      'a bad policy',
      { policy: { standingBy: 1, max: 3, scaling: { buffer: { min: -1 } } } },
      'spec.scaling.buffer.min must be',
    ],
  ])('%s: an error that names it', async (_, change, message) => {
    await expect(replayDemand(options(change))).rejects.toThrow(message)
  })

  it('looks back on the days before as they were', async () => {
    const scaling = { forecast: {} }
    const outcome = await replayDemand(options({ policy: { standingBy: 1, max: 200, scaling } }))
    expect(outcome.refused).toBeLessThan(20)
    const [first, last] = demand.days
    const none = { ...demand, days: [first && { ...first, asked: [] }, last].filter((one) => one !== undefined) }
    const blind = await replayDemand(options({ demand: none, policy: { standingBy: 1, max: 200, scaling } }))
    expect(blind.refused).toBeGreaterThan(2 * outcome.refused + 20)
  })

  it('plays several sessions on a server', async () => {
    const alone = await replayDemand(options())
    const shared = await replayDemand(options({ policy: { standingBy: 10, max: 200, sessionsPerServer: 4 } }))
    expect(shared).toMatchObject({ served: 400, refused: 0 })
    expect(shared.peakServers).toBeLessThan(alone.peakServers)
  })

  it('needs the functions that the policy names', async () => {
    const policy = { standingBy: 0, max: 200, scaling: { function: 'ten' } }
    await expect(replayDemand(options({ policy }))).rejects.toThrow(
      'replayDemand: policy.scaling.function: scalingPolicies has no function "ten", so that it cannot be replayed',
    )
    const webhook = { standingBy: 0, max: 200, scaling: { webhook: { url: 'https://demand.example/arena' } } }
    await expect(replayDemand(options({ policy: webhook }))).rejects.toThrow('a replay asks no webhook')
    const outcome = await replayDemand(options({ policy, scalingPolicies: { ten: () => 10 } }))
    expect(outcome.idleServerHours).toBeCloseTo(240, -1)
  })

  it.each([{ waitSeconds: -5 }, { startSeconds: NaN }])('%j is refused', async (bad) => {
    const [name] = Object.keys(bad)
    await expect(replayDemand(options(bad))).rejects.toThrow(`replayDemand: ${name} must be a number ≥ 0`)
  })

  it('needs days', async () => {
    const none = replayDemand({ demand: { ...demand, days: [] }, policy: { standingBy: 1, max: 3 } })
    await expect(none).rejects.toThrow('replayDemand: demand has no days')
  })

  it('needs sessions that have ended', async () => {
    const days = demand.days.map((one) => ({ ...one, sessions: {} }))
    await expect(replayDemand(options({ demand: { ...demand, days } }))).rejects.toThrow(
      'replayDemand: no session of the recording has ended, so that nobody knows how long they take',
    )
  })
})

it('what a fleet has recorded can be replayed', async () => {
  const clock = virtualClock()
  const backend = memoryBackend({ clock, startLatencyMs: 5_000 })
  const fleet = await createFleet({ backend, clock, logger: false })
  const template = { spec: { containers: [{ name: 'game' }] } }
  const spec = { buildID: 'arena', standingBy: 2, max: 9, portsToExpose: [], template }
  await fleet.builds.create({ metadata: { name: 'arena' }, spec })
  await clock.advance(10_000)
  for (let n = 0; n < 6; n++) {
    const { server } = await clock.run(
      fleet.allocate({ buildID: 'arena', sessionID: `match-${n}` }, { waitMs: 20_000 }),
    )
    await clock.advance(60_000)
    backend.server(server).exit()
    await clock.advance(60_000)
  }
  const recorded = await fleet.builds.demand('arena')
  await fleet.close()
  const outcome = await replayDemand({ demand: recorded, policy: { standingBy: 2, max: 9 } })
  expect(outcome).toMatchObject({ day: '2025-01-01', callers: 6, refused: 0 })
  expect(outcome.serverHours - outcome.idleServerHours).toBeCloseTo(0.1, 1)
})
