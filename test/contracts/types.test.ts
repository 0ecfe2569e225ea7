/** What the compiler says of calls as people write them. Each `@ts-expect-error` is an error that `tsc` must report. */
import { type AllocationRequest, createFleet, defineBuild, FleetError } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'

async function open() {
  const fleet = await createFleet({ backend: memoryBackend() })
  onTestFinished(() => fleet.close())
  return fleet
}

const arena = defineBuild({
  metadata: { name: 'arena' },
  spec: {
    buildID: 'arena',
    standingBy: 0,
    max: 1,
    run: { command: ['game'], ports: [{ name: 'game', port: 7777, protocol: 'UDP' }] },
  },
})

it('a build in a constant has the types that create takes', async () => {
  const fleet = await open()
  expect((await fleet.builds.create(arena)).spec.portsToExpose).toEqual([7777])
  // @ts-expect-error: a misspelt field is found where the build is written
  expect(defineBuild({ ...arena, spec: { ...arena.spec, standingby: 1 } })).toBeDefined()
})

it('an allocation names a build, a selector or a server', async () => {
  const fleet = await open()
  const sessionID = 'one'
  // @ts-expect-error: it says from which servers one is taken
  await expect(fleet.allocate({ sessionID })).rejects.toMatchObject({ code: 'invalid' })
  // @ts-expect-error: it says so once
  const twice: AllocationRequest = { sessionID, buildID: 'arena', select: [] }
  await expect(fleet.allocate(twice)).rejects.toMatchObject({ code: 'invalid' })
  const requests: readonly AllocationRequest[] = [
    { sessionID, buildID: 'arena' },
    { sessionID, select: [{ builds: ['arena'] }] },
    { sessionID, server: { name: 'arena-x7k2p' } },
  ]
  expect(requests).toHaveLength(3)
})

it('a code narrows the error, and its details', async () => {
  const fleet = await open()
  await fleet.builds.create(arena)
  const error: unknown = await fleet.allocate({ buildID: 'arena', sessionID: 'one' }).catch((thrown: unknown) => thrown)
  if (!FleetError.is(error, 'none-standing-by')) throw new Error('expected none-standing-by', { cause: error })
  const { code } = error satisfies { readonly code: 'none-standing-by' }
  const max: number | undefined = error.details?.max
  expect([code, max]).toEqual(['none-standing-by', 1])

  const full: unknown = new FleetError('no-room', 'no seat', { details: { needed: 2, free: 1 } })
  if (!FleetError.is(full, 'no-room')) throw new Error('expected no-room')
  const free: number | undefined = full.details?.free
  // @ts-expect-error: another code than the one that was asked for
  expect(full.code === 'not-found').toBe(false)
  expect(free).toBe(1)
})
