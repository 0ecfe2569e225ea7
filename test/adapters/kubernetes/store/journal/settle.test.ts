/** A journal that hangs, is refused or cannot be reached keeps nobody waiting longer than one call. */
import { expect, it } from 'vitest'
import { ApiError } from '../../../../../adapters/kubernetes/client/api-errors.js'
import { FleetError } from '../../../../../src/contracts/errors.js'
import { Host, JournalWorld } from '../../support/journal-world.js'

it('reads of servers with unknown entries do not wait for one another while the journal is unreachable', async () => {
  const world = new JournalWorld()
  const names = Array.from({ length: 30 }, (_, n) => `s-${n}`)
  for (const name of names) world.addServer(name)
  const leader = (await new Host(world, 'one').lead(1)).own()
  // From the second write on, every call for the journal times out after 20 s, which is callTimeoutMs.
  let calls = 0
  leader.held = (call) =>
    call.endsWith('journal') && ++calls > 1
      ? new Promise((_, reject) => {
          world.clock.after(20_000, () => reject(new FleetError('unavailable', 'timeout')))
        })
      : undefined
  const outcomes = names.map((name) =>
    leader.allocate(name, `on-${name}`, world.server(name).revision).then(
      () => 'answered',
      () => name,
    ),
  )
  await world.clock.advance(100_000)
  const unknown = (await Promise.all(outcomes)).filter((outcome) => outcome !== 'answered')
  expect(unknown.length).toBeGreaterThan(20)
  // As the engine does after a write whose outcome is unknown.
  let settled = 0
  for (const name of unknown) void leader.get(name).catch(() => settled++)
  await world.clock.advance(40_000)
  expect(settled).toBe(unknown.length)
})

it('a lone caller does not wait for two writes that hang', async () => {
  const world = new JournalWorld()
  for (const name of ['a', 'b', 'c']) world.addServer(name)
  const leader = (await new Host(world, 'one').lead(1)).own()
  let calls = 0
  // The connections of two callers are dead: they time out after 20 s.
  leader.held = (call) =>
    call === 'write status' && ++calls <= 2
      ? new Promise((resolve) => world.clock.after(20_000, () => resolve()))
      : undefined
  for (const name of ['a', 'b']) void leader.allocate(name, `on-${name}`, world.server(name).revision)
  await world.clock.advance(1_000)
  let answered = false
  void leader.allocate('c', 'on-c', world.server('c').revision).then(() => (answered = true))
  await world.clock.advance(2_000)
  expect(answered).toBe(true)
})

it('callers do not wait for a write of the journal that hangs', async () => {
  const world = new JournalWorld()
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  for (const name of names) world.addServer(name)
  const leader = (await new Host(world, 'one').lead(1)).own()
  leader.held = (call) =>
    call === 'write journal' ? new Promise((resolve) => world.clock.after(20_000, () => resolve())) : undefined
  for (const name of ['a', 'b', 'c', 'd']) void leader.allocate(name, `on-${name}`, world.server(name).revision)
  await world.clock.advance(1_000)
  let answered = 0
  for (const name of ['e', 'f'])
    void leader.allocate(name, `on-${name}`, world.server(name).revision).then(() => answered++)
  await world.clock.advance(2_000)
  expect(answered).toBe(2)
})

it.each([400, 422])('a host whose journal is refused by a policy (%i) leads without it', async (status) => {
  const world = new JournalWorld()
  world.addServer('a')
  const host = new Host(world, 'one')
  host.held = (call) =>
    call === 'write journal'
      ? Promise.reject(
          new FleetError('invalid', 'denied', {
            cause: new ApiError(status, 'BadRequest', 'admission webhook denied the request', 'x'),
          }),
        )
      : undefined
  await host.lead(1)
})

it('a host that may read but not write the journal leads, and carries out what is in it', async () => {
  const world = new JournalWorld()
  world.addServer('a')
  const leader = (await new Host(world, 'one', { minGroup: 1 }).lead(1)).own()
  await leader.allocate('a', 'match', world.server('a').revision)
  leader.term = undefined
  const two = new Host(world, 'two')
  two.held = (call) =>
    call === 'write journal'
      ? Promise.reject(
          new FleetError('unavailable', 'denied', { cause: new ApiError(403, 'Forbidden', 'forbidden', 'x') }),
        )
      : undefined
  await two.lead(1)
  await world.clock.until(() => world.session('a') === 'match')
})
