/** A store that has lost its data beside running game servers is not taken for a new one. */
import { rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { createFleet, fileStore, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from './temporary.js'

const build = {
  metadata: { name: 'arena' },
  spec: {
    ...{ buildID: 'arena', standingBy: 2, max: 3, portsToExpose: [7777] },
    template: { spec: { containers: [{ name: 'game', image: 'arena:1' }] } },
  },
}
const session = { buildID: 'arena', sessionID: '9a6b2f0e-0000-4000-8000-000000000000' }

/** A fleet that has closed, with a match and an idle server that go on. */
async function left() {
  const directory = await temporaryDirectory()
  const backend = memoryBackend({ clock: systemClock })
  const open = async (options: { readonly acceptStoreLoss?: boolean } = {}) => {
    const store = await fileStore({ directory })
    // Closes the store, which belongs to the test, if the fleet refuses to start.
    const fleet = await createFleet({ backend, store, ...options }).catch(async (error: unknown) => {
      await store.close()
      throw error
    })
    let closing: Promise<void> | undefined
    const close = () => (closing ??= fleet.close().then(() => store.close()))
    onTestFinished(close)
    return { fleet, close }
  }
  const { fleet, close } = await open()
  await fleet.builds.create(build)
  await fleet.allocate(session, { waitMs: 10_000 })
  await close()
  return { directory, backend, open }
}

it.each<[string, (data: string) => Promise<void>]>([
  ['is missing', (data) => rm(data)],
  ['is empty', (data) => truncate(data)],
])('a fleet whose data.mdb %s refuses to start, and changes nothing', async (_, lose) => {
  const { directory, backend, open } = await left()
  const before = backend.servers().map(({ ref, phase }) => ({ ref, phase }))
  await lose(join(directory, 'data.mdb'))
  await expect(open()).rejects.toMatchObject({
    code: 'directory-unusable',
    message: expect.stringMatching(
      /^the store is empty, but the memory backend has \d game servers of this fleet \(arena-.*\): its data was lost or replaced\. Restore its whole directory from a backup, or start with acceptStoreLoss: true/,
    ),
  })
  expect(backend.servers().map(({ ref, phase }) => ({ ref, phase }))).toEqual(before)
  // It refuses as long as nobody has decided.
  await expect(open()).rejects.toMatchObject({ code: 'directory-unusable' })
})

it('a fleet without its data names the only server that is left', async () => {
  const { directory, backend, open } = await left()
  const [kept, ...others] = backend.servers()
  const listed = await backend.list()
  for (const { ref } of others) {
    const uid = listed.find((one) => one.ref.name === ref.name)?.uid ?? ''
    await backend.destroy(ref, uid, { graceMs: 0 })
  }
  await rm(join(directory, 'data.mdb'))
  await expect(open()).rejects.toThrow(`has 1 game server of this fleet (${kept?.ref.name})`)
})

it('a fleet that is told to accept the loss starts, and can be used', async () => {
  const { directory, open } = await left()
  await rm(join(directory, 'data.mdb'))
  const { fleet } = await open({ acceptStoreLoss: true })
  await fleet.builds.create(build)
  expect(await fleet.allocate(session, { waitMs: 10_000 })).toMatchObject({ SessionID: session.sessionID })
})

it('a fleet with its data starts beside its servers, and so does a new one without any', async () => {
  const { open } = await left()
  const { fleet } = await open()
  expect(await fleet.allocate(session)).toMatchObject({ SessionID: session.sessionID })
  const empty = await createFleet({
    backend: memoryBackend({ clock: systemClock }),
    store: await fileStore({ directory: await temporaryDirectory() }),
  })
  await empty.close()
})

it('a fleet whose data.mdb is missing refuses to start also when no game servers are left, because its builds are lost', async () => {
  const { directory } = await left()
  await rm(join(directory, 'data.mdb'))
  const store = await fileStore({ directory })
  onTestFinished(() => store.close())
  await expect(createFleet({ backend: memoryBackend({ clock: systemClock }), store })).rejects.toMatchObject({
    code: 'directory-unusable',
    message: expect.stringMatching(
      /^the store is damaged: the newest \d+ writes are missing: data\.mdb was replaced by an older copy, or is damaged\. Restore its whole directory from a backup, or start with acceptStoreLoss: true/,
    ),
  })
})
