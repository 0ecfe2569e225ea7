/** A fleet whose store is damaged ends no match and gives no session a second server, unless the operator accepts the loss. */
import { createFleet, fileStore, memoryStore, type Store, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { expect, it, onTestFinished } from 'vitest'
import { garble, sessionOf } from './damage.js'
import { temporaryDirectory } from './temporary.js'

const build = {
  metadata: { name: 'arena' },
  spec: {
    ...{ buildID: 'arena-build', standingBy: 2, max: 4, portsToExpose: [7777] },
    template: { spec: { containers: [{ name: 'game', image: 'arena:1' }] } },
  },
}
const session = (n: number) => ({ buildID: 'arena-build', sessionID: sessionOf(n) })

/** A fleet that has closed, with two matches and idle servers that go on. */
async function left() {
  const directory = await temporaryDirectory()
  const backend = memoryBackend({ clock: systemClock })
  const open = async (acceptStoreLoss = false, on = backend) => {
    const store = await fileStore({ directory })
    // Closes the store, which belongs to the test, if the fleet refuses to start.
    const fleet = await createFleet({ backend: on, store, acceptStoreLoss }).catch(async (error: unknown) => {
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
  // Confirmed: a game that has not heard of its match cannot tell a host that has lost the record.
  const allocations = [
    await fleet.allocate(session(1), { waitMs: 10_000, confirm: true }),
    await fleet.allocate(session(2), { waitMs: 10_000, confirm: true }),
  ]
  expect(await fleet.store.check()).toMatchObject({ isWhole: true, records: { build: 1 } })
  const servers = await fleet.servers.list()
  const nameOf = (n: number) => servers.find(({ status }) => status.sessionID === sessionOf(n))?.metadata.name ?? ''
  await close()
  return { directory, backend, open, allocations, name: nameOf(1) }
}

const running = (backend: ReturnType<typeof memoryBackend>) =>
  backend.servers().flatMap(({ ref, phase }) => (phase === 'running' ? [ref.name] : []))

it('a fleet with the damaged record of a match refuses to start, names it, and changes nothing', async () => {
  const { directory, backend, open, name } = await left()
  const before = running(backend)
  await garble(directory, sessionOf(1))
  // It refuses as long as nobody has decided.
  for (let n = 0; n < 2; n++) {
    await expect(open()).rejects.toMatchObject({
      code: 'directory-unusable',
      message: expect.stringMatching(
        new RegExp(
          `^the store is damaged: server default/${name} is damaged: its checksum does not match; the memory backend has \\d game servers .* Restore its whole directory from a backup, or start with acceptStoreLoss: true`,
        ),
      ),
    })
  }
  expect(running(backend)).toEqual(before)
})

it('a fleet that is told to accept the loss of a record keeps the match and the other sessions, and says what is lost', async () => {
  const { directory, backend, open, allocations, name } = await left()
  await garble(directory, sessionOf(1))
  const { fleet } = await open(true)
  const events = fleet.events({ from: 1 })
  expect((await events.next()).value).toMatchObject({
    type: 'StoreDamaged',
    problems: [`server default/${name} is damaged: its checksum does not match`],
  })
  expect(await fleet.allocate(session(2))).toEqual(allocations[1])
  const other = await fleet.allocate(session(3), { waitMs: 10_000 })
  expect(allocations).not.toContainEqual({ ...other, SessionID: expect.any(String) })
  expect(running(backend)).toContain(name)
  expect(await fleet.store.check()).toMatchObject({ isWhole: true })
})

it('a fleet whose build is damaged refuses to start; if that is accepted, its matches go on under an empty build', async () => {
  const { directory, backend, open, allocations } = await left()
  await garble(directory, '"buildID":"arena-build')
  await expect(open()).rejects.toMatchObject({
    message: expect.stringContaining('build default/arena is damaged: its checksum does not match'),
  })
  const matches = running(backend)
  const { fleet } = await open(true)
  expect(await fleet.builds.get('arena')).toMatchObject({ spec: { standingBy: 0, max: 0 } })
  for (const [n, allocation] of allocations.entries())
    expect((await fleet.allocate(session(n + 1))).Ports).toBe(allocation.Ports)
  const servers = await fleet.servers.list()
  const active = servers.filter(({ status }) => status.state === 'Active').map(({ metadata }) => metadata.name)
  expect(active).toHaveLength(2)
  expect(matches).toEqual(expect.arrayContaining(active))
  expect(running(backend)).toEqual(expect.arrayContaining(active))
})

it('a fleet without game servers starts although the record of a server is damaged', async () => {
  const { directory, open } = await left()
  await garble(directory, sessionOf(1))
  const { fleet } = await open(false, memoryBackend({ clock: systemClock }))
  expect(fleet.stats().builds).toHaveLength(1)
  expect((await fleet.events({ from: 1 }).next()).value).toMatchObject({ type: 'StoreDamaged' })
})

it('a fleet whose store keeps no files says so when it is checked', async () => {
  const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock }), store: memoryStore() })
  onTestFinished(() => fleet.close())
  await expect(fleet.store.check()).rejects.toMatchObject({ code: 'unsupported' })
})

it('a host that dies while it accepts the loss of a build ends no match at its next start', async () => {
  const { directory, backend, open } = await left()
  await garble(directory, '"buildID":"arena-build')
  const store = await fileStore({ directory })
  // All that the host does before it dies.
  await expect(createFleet({ backend, store: untilAccepted(store), acceptStoreLoss: true })).rejects.toThrow('killed')
  await store.close()
  const { fleet } = await open(true)
  const servers = await fleet.servers.list()
  expect(servers.filter(({ status }) => status.state === 'Active')).toHaveLength(2)
})

/** The store of a host that is killed as soon as the damage has been accepted. */
function untilAccepted(store: Store): Store {
  const killed = async () => Promise.reject(new Error('killed'))
  const collection = { get: killed, list: killed, create: killed, update: killed, delete: killed }
  return {
    ...{ shared: false, builds: collection, servers: collection, details: collection, close: async () => {} },
    ...(store.damage && { damage: store.damage }),
    acceptDamage: async (...args) => store.acceptDamage?.(...args),
  }
}
