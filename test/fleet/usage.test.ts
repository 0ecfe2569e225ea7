/** What servers use. */
import { expect, it } from 'vitest'
import type { InstanceUsage } from '../../src/contracts/backend.js'
import { aBuild, failureOf, only, stage, untilReady } from './stage.js'

async function opened(usage?: () => Promise<InstanceUsage>) {
  const scene = stage()
  const fleet = await scene.open({ backend: { ...scene.backend, ...(usage && { usage }) } })
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
  await untilReady(scene, fleet, 1)
  return { scene, fleet, ref: only(scene.backend.servers()).ref }
}

it('the first measurement takes half a second, and later ones begin where the last ended', async () => {
  let cpuSeconds = 10
  const { scene, fleet, ref } = await opened(async () => ({ memoryBytes: 1_000, cpuSeconds }))
  const measured = fleet.servers.usage(ref)
  await scene.clock.settle()
  cpuSeconds += 0.25
  await scene.clock.advance(500)
  expect(await measured).toEqual({ at: scene.clock.now(), memoryBytes: 1_000, cpuCores: 0.5 })
  cpuSeconds += 20
  await scene.clock.advance(10_000)
  expect((await fleet.servers.usage(ref)).cpuCores).toBe(2)
  // Another game of the same name began anew.
  cpuSeconds = 0
  await scene.clock.advance(10_000)
  expect((await fleet.servers.usage(ref)).cpuCores).toBe(0)
})

it('a rate that the system measures is passed on', async () => {
  const { fleet, ref } = await opened(async () => ({ memoryBytes: 1_000, cpuCores: 1.5 }))
  expect((await fleet.servers.usage(ref)).cpuCores).toBe(1.5)
})

it('is unsupported by a backend without it, and not-found for a server that does not exist', async () => {
  const { fleet, ref } = await opened()
  expect(await failureOf(fleet.servers.usage(ref))).toMatchObject({ code: 'unsupported' })
  expect(await failureOf(fleet.servers.usage('nobody'))).toMatchObject({ code: 'not-found' })
})
