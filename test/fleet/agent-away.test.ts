/** Games that exit because they cannot reach the agent while the host is away, as those of the Java client do. */
import { describe, expect, it } from 'vitest'
import { aBuild, nth, only, stage, statusOf, untilReady } from './stage.js'

/** A host that has started one server, which has not sent a heartbeat. */
async function starting() {
  const scene = stage({ memory: { script: 'manual' } })
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 2, crashesToMarkUnhealthy: 1 }))
  await scene.clock.settle()
  return { scene, fleet, server: only(scene.backend.servers()) }
}

describe('a server that exits with an error before its first heartbeat', () => {
  it('is no crash and is replaced at once if the host was away when it started', async () => {
    const { scene, server } = await starting()
    scene.crash()
    server.exit(1)
    await scene.clock.advance(5_000)
    const fleet = await scene.open()
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, health: 'Healthy', currentInitializing: 1 })
    // Emitted while the fleet opened, so only the log has it.
    const ending = (await fleet.explain(server.ref)).events.find(({ type }) => type === 'ServerEnding')
    expect(ending).toMatchObject({ reason: 'AgentAway', crash: false })
    expect(ending?.message).toContain('the process exited with code 1 before it could reach its agent, which was away')
    const replacement = only(scene.backend.servers().filter(({ phase }) => phase === 'running'))
    expect(replacement.ref).not.toEqual(server.ref)
    replacement.ready()
    await untilReady(scene, fleet, 1)
  })

  it('is no crash if it exits only after the host is back', async () => {
    const { scene, server } = await starting()
    scene.crash()
    const fleet = await scene.open()
    await scene.clock.advance(1_000)
    server.exit(1)
    await scene.clock.advance(1_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })

  it('is no crash if the host was suspended since its start', async () => {
    const { scene, fleet, server } = await starting()
    await scene.clock.advance(1_500)
    await scene.clock.suspend(20_000)
    await scene.clock.advance(1_500)
    server.exit(1)
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })

  it('is a crash if the host was there all the time', async () => {
    const { scene, fleet, server } = await starting()
    await scene.clock.advance(5_000)
    server.exit(1)
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1, health: 'Unhealthy' })
  })

  it('is a crash if it was started by a host that has restarted since, and its replacement fails too', async () => {
    const { scene, server } = await starting()
    scene.crash()
    server.exit(1)
    const fleet = await scene.open()
    await scene.clock.advance(100)
    nth(
      scene.backend.servers().filter(({ phase }) => phase === 'running'),
      0,
    ).exit(1)
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })
})

it('a server that had sent a heartbeat before the host was killed crashes as usual', async () => {
  const { scene, server } = await starting()
  server.ready()
  await scene.clock.advance(1_000)
  scene.crash()
  server.exit(1)
  const fleet = await scene.open()
  await scene.clock.advance(100)
  expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
})
