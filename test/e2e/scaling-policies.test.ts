/** Real game servers are kept ready as policies say, and the demand is recorded across a restart of the host. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Fleet } from 'gamekeeper'
import { replayDemand } from 'gamekeeper/testing'
import { kubectl } from '../adapters/kubernetes/support/cluster.js'
import { backend, space } from './backend.js'
import { buildOf } from './client.js'
import { create, ownFleet } from './own-fleet.js'
import { portRange } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const scaling = { buffer: { min: 1, percent: 100 }, scaleDown: { delaySeconds: 1, perMinute: 600 } }

it(
  'a buffer follows matches up and down, a number set by hand overrides it, and what was recorded can be replayed',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const first = await ownFleet(place, { portRange: portRange('scaling-policies') })
    const arena = { namespace: space(), name: 'arena' }
    const status = async (fleet: Fleet) => (await fleet.builds.get(arena)).status
    const isReady = (fleet: Fleet, count: number) =>
      until(`${count} are ready`, async () => (await status(fleet)).currentStandingBy === count)
    await create(first, buildOf({ name: 'arena', buildID: 'policies', standingBy: 0, max: 12, scaling }))
    await isReady(first, 1)
    const sessions = Array.from({ length: 3 }, () => randomUUID())
    for (const sessionID of sessions) await first.allocate({ buildID: 'policies', sessionID }, { waitMs: 60_000 })
    await isReady(first, 3)
    expect((await status(first)).scaling).toMatchObject({ standingBy: 3, decider: 'buffer' })
    // The games know the agent's port.
    const port = Number(first.agentAddress?.split(':').at(-1))
    await first.close()

    const second = await ownFleet(place, { agent: { port }, portRange: portRange('scaling-policies') })
    await isReady(second, 3)
    for (const sessionID of sessions) await second.sessions.end(sessionID)
    await isReady(second, 1)

    if (backend === 'kubernetes') await kubectl('-n', space(), 'scale', 'gsb', 'arena', '--replicas', '2')
    else await second.builds.patch(arena, { standingBy: 2 })
    await isReady(second, 2)
    expect((await status(second)).scaling).toMatchObject({ standingBy: 2, decider: 'override' })
    // Written after the decision.
    await until('the condition says so', async () =>
      (await status(second)).conditions?.some(({ type, status: is }) => type === 'ScalingOverridden' && is === 'True'),
    )

    // A session ends when its server is gone.
    const sum = (all: readonly number[]) => all.reduce((total, one) => total + one, 0)
    const demand = await until('three sessions have ended', async () => {
      const recorded = await second.builds.demand(arena)
      const ended = recorded.days.flatMap((day) => Object.values(day.sessions).flatMap((of) => Object.values(of)))
      return sum(ended) === 3 ? recorded : undefined
    })
    expect(sum(demand.days.flatMap(({ asked }) => asked))).toBe(3)
    const outcome = await replayDemand({ demand, policy: { standingBy: 3, max: 12 } })
    expect(outcome).toMatchObject({ callers: expect.any(Number), refused: 0 })
    await second.builds.delete(arena)
  },
)
