/** Public ports on one machine: one live holder each, reused after release, and no crash when they are exhausted. */
import { describe, expect, it } from 'vitest'
import { aBuild, nth, serversBy, stage, type Stage, statusOf, untilReady } from './stage.js'

const held = ({ backend }: Stage) => backend.servers().flatMap(({ instance }) => instance.ports.map((p) => p.public))

async function opened(overrides: Parameters<typeof aBuild>[0], last: number, nodes?: readonly string[]) {
  const scene = stage({ memory: { portRange: { first: 10_000, last }, ...(nodes && { nodes }) } })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild(overrides))
  await scene.clock.settle()
  return { scene, fleet }
}

describe('public ports', () => {
  it('are optional: a build that exposes no ports gets its servers', async () => {
    const { fleet } = await opened({ standingBy: 2, portsToExpose: [] }, 10_000)
    expect((await serversBy(fleet, 'StandingBy')).map(({ status }) => status.ports)).toEqual(['', ''])
  })

  it('are reported on the server and the build when exhausted, and no crash is counted', async () => {
    const { scene, fleet } = await opened({ standingBy: 3, max: 3 }, 10_001)
    const [pending] = await serversBy(fleet, 'Pending')
    expect(pending?.status.message).toMatch(/no node has 1 free public port/)
    expect(await statusOf(fleet)).toMatchObject({
      currentStandingBy: 2,
      currentPending: 1,
      crashesCount: 0,
      conditions: [{ type: 'CreateBlocked', reason: 'ports-exhausted' }],
    })
    expect(nth(scene.eventsOf('ServerStartFailed'), 0).reason).toMatch(/no node has 1 free public port/)
  })

  it('are given to waiting servers when released', async () => {
    const { scene, fleet } = await opened({ standingBy: 3, max: 3 }, 10_001)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(1_000)
    nth(scene.backend.servers(), 0).exit(0)
    await scene.clock.advance(120_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentPending: 0 })
    expect((await statusOf(fleet)).conditions).toBeUndefined()
  })

  it('have their exhausted condition cleared once no server waits for a port', async () => {
    const { scene, fleet } = await opened({ standingBy: 3, max: 3 }, 10_001)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(1_000)
    expect((await statusOf(fleet)).conditions).toBeUndefined()
  })

  it('are each used by at most one live server while servers are created and terminated', async () => {
    const { scene, fleet } = await opened({ standingBy: 4, max: 6, portsToExpose: [7777, 7778] }, 10_011)
    for (let i = 0; i < 20; i++) {
      nth(scene.backend.servers(), i % 3).exit(i % 2)
      await scene.clock.advance(30_000)
      expect(new Set(held(scene)).size).toBe(held(scene).length)
    }
    await untilReady(scene, fleet, 4)
    expect(held(scene).length).toBe(8)
  })

  it('are counted per machine: two machines have twice as many', async () => {
    const { fleet } = await opened({ standingBy: 4, max: 4 }, 10_001, ['north', 'south'])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 4 })
  })
})
