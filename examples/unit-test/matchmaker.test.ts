/**
 * Shows how an app can test its own code that uses gamekeeper: with a real fleet, simulated servers and a virtual clock,
 * without Docker, ports or waiting. Run it with `node --import tsx --test examples/unit-test/matchmaker.test.ts`.
 */
// oxlint-disable typescript/no-floating-promises -- node:test awaits its tests itself
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { createFleet, type Fleet } from 'gamekeeper'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import { type VirtualClock, virtualClock } from 'gamekeeper/testing'
import { Matchmaker, ServersBusy } from './matchmaker.js'

describe('the matchmaker', () => {
  let clock: VirtualClock
  let backend: MemoryBackend
  let fleet: Fleet
  let matchmaker: Matchmaker

  beforeEach(async () => {
    clock = virtualClock()
    backend = memoryBackend({ clock, readyAfterMs: 3_000 })
    fleet = await createFleet({ backend, clock })
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: { buildID: 'arena-1.0', standingBy: 1, max: 2, run: { command: ['./arena'], ports: [{ port: 7777 }] } },
    })
    await clock.until(async () => (await fleet.builds.get('arena')).status.currentStandingBy === 1)
    matchmaker = new Matchmaker({ fleet, buildID: 'arena-1.0', playersPerMatch: 2 })
  })

  afterEach(() => fleet.close())

  it('sends two players to one server, which gets their names', async () => {
    const [amie, bo] = await Promise.all([matchmaker.join('amie'), matchmaker.join('bo')])
    assert.deepEqual(amie, bo)

    await clock.advance(1_000)
    const server = backend.servers().find(({ session }) => session)
    assert.deepEqual(server?.session?.initialPlayers, ['amie', 'bo'])
    assert.equal(server.instance.ports[0]?.public, amie.port)
    assert.equal(server.state, 'Active')
  })

  it('lets a single player wait for another one', async () => {
    let match: unknown
    void matchmaker.join('amie').then((found) => (match = found))
    await clock.advance(60_000)
    assert.equal(match, undefined)
  })

  it('waits while the next server starts', async () => {
    await Promise.all([matchmaker.join('amie'), matchmaker.join('bo')])
    const late = Promise.all([matchmaker.join('cy'), matchmaker.join('di')])
    await clock.advance(3_000)
    assert.deepEqual((await late)[0].players, ['cy', 'di'])
  })

  it('rejects players when all servers are in use, and starts a match again after one has ended', async () => {
    const full = ['amie', 'bo', 'cy', 'di'].map((player) => matchmaker.join(player))
    await clock.until(async () => (await fleet.builds.get('arena')).status.currentActive === 2)
    await Promise.all(full)

    const refused = assert.rejects(Promise.all([matchmaker.join('ed'), matchmaker.join('flo')]), ServersBusy)
    await clock.advance(10_000)
    await refused

    const over = backend.servers().find(({ session }) => session?.initialPlayers.includes('amie'))
    over?.exit(0)
    const match = Promise.all([matchmaker.join('ed'), matchmaker.join('flo')])
    await clock.advance(5_000)
    assert.deepEqual((await match)[0].players, ['ed', 'flo'])
  })
})
