/** What an allocation returns, and how a session is told apart from others. */
import { FleetError } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, only, playing, session, stage, untilReady } from './stage.js'

const ports = [
  { name: 'game', containerPort: 7777, protocol: 'UDP' },
  { name: 'query', containerPort: 7778 },
]

async function standing(count = 2, more: Parameters<typeof aBuild>[0] = {}) {
  const scene = stage()
  const warnings: object[] = []
  const logger = { debug: () => {}, info: () => {}, error: () => {}, warn: (fields: object) => warnings.push(fields) }
  const fleet = await scene.open({ logger })
  const plain = aBuild({ standingBy: count, portsToExpose: [7777, 7778], ...more })
  const template = { spec: { containers: [{ name: 'game', ports }] } }
  await fleet.builds.create({ ...plain, spec: { ...plain.spec, template } })
  await untilReady(scene, fleet, count)
  return { scene, fleet, warnings }
}

describe('an allocation returns', () => {
  it('the server, its address and its ports by name', async () => {
    const { scene, fleet } = await standing()
    const allocation = await fleet.allocate(ask(1))
    const { ref, instance } = await playing(scene, fleet, 1)
    const [game, query] = instance.ports
    expect(allocation.server).toEqual(ref)
    expect(allocation.address).toBe(allocation.IPV4Address)
    expect(allocation.ports).toEqual([
      { name: 'game', container: 7777, public: game?.public, protocol: 'UDP' },
      { name: 'query', container: 7778, public: query?.public, protocol: 'TCP' },
    ])
    expect([allocation.port('game'), allocation.port(7778)]).toEqual([game?.public, query?.public])
  })

  it('a port without its name if there is only one', async () => {
    const { scene, fleet } = await standing(1, { portsToExpose: [7777] })
    const allocation = await fleet.allocate(ask(1))
    expect(allocation.port()).toBe(only((await playing(scene, fleet, 1)).instance.ports).public)
  })

  it.each([
    [undefined, 'port needs a name or a number: this server has game (7777), query (7778)'],
    ['gmae', 'port "gmae" does not exist: this server has game (7777), query (7778); did you mean game?'],
    [9, 'port 9 does not exist: this server has game (7777), query (7778)'],
  ])('no port %s, but the names that there are', async (which, message) => {
    const { fleet } = await standing()
    const allocation = await fleet.allocate(ask(1))
    expect(() => allocation.port(which)).toThrow(new FleetError('invalid', message))
  })

  it('plain data: the method is not in its JSON, and it can be cloned', async () => {
    const { fleet } = await standing()
    const allocation = await fleet.allocate(ask(1))
    const fields = ['IPV4Address', 'Ports', 'SessionID', 'server', 'address', 'ports']
    expect(Object.keys(JSON.parse(JSON.stringify(allocation)) as object)).toEqual(fields)
    expect(structuredClone(allocation)).toEqual({ ...allocation })
  })

  it('the same to a repeated call, to one that joins it, and after a restart', async () => {
    const { scene, fleet } = await standing()
    const [first, joined] = await Promise.all([fleet.allocate(ask(1)), fleet.allocate(ask(1))])
    expect(joined).toEqual(first)
    expect(await fleet.allocate(ask(1))).toEqual(first)
    await fleet.close()
    expect(await (await scene.open()).allocate(ask(1))).toEqual(first)
  })
})

describe('a session that is requested under another build', () => {
  const mismatch = { requested: 'duel', actual: 'arena' }

  it('keeps its server, and the answer and the log name both builds', async () => {
    const { fleet, warnings } = await standing()
    const first = await fleet.allocate(ask(1))
    expect(first).not.toHaveProperty('buildMismatch')
    expect(await fleet.allocate(ask(1, { buildID: 'duel' }))).toEqual({ ...first, buildMismatch: mismatch })
    expect(warnings).toEqual([{ server: first.server.name, sessionID: session(1), ...mismatch }])
  })

  it('is answered the same if the two calls are concurrent', async () => {
    const { fleet } = await standing()
    const [first, other] = await Promise.all([fleet.allocate(ask(1)), fleet.allocate(ask(1, { buildID: 'duel' }))])
    expect(first).not.toHaveProperty('buildMismatch')
    expect(other).toEqual({ ...first, buildMismatch: mismatch })
  })
})

describe('an unknown buildID', () => {
  it('that is the name of a build gets the buildID of that build', async () => {
    const { fleet } = await standing(1, { buildID: 'a-1' })
    const { code, message } = await failureOf(fleet.allocate(ask(1)))
    expect([code, message]).toEqual([
      'not-found',
      'no build has the buildID "arena"; build arena has the buildID "a-1"',
    ])
  })
})

describe('session ids', () => {
  it('are passed to the game as they are, and are those of one session each', async () => {
    const { scene, fleet } = await standing(4, { max: 4 })
    const ids = ['ranked/eu 7 "試合"', 'Ranked/eu 7 "試合"', 'caf\u00e9', 'cafe\u0301']
    const given = await Promise.all(ids.map((sessionID) => fleet.allocate({ buildID: 'arena', sessionID })))
    expect(new Set(given.map(({ server }) => server.name)).size).toBe(ids.length)
    await scene.clock.advance(2_000)
    for (const { server, SessionID } of given) {
      expect(ids).toContain(SessionID)
      expect(scene.backend.server(server).session?.sessionId).toBe(SessionID)
    }
    await fleet.close()
    const next = await scene.open()
    const again = await Promise.all(ids.map((sessionID) => next.allocate({ buildID: 'arena', sessionID })))
    expect(again.map(({ server }) => server)).toEqual(given.map(({ server }) => server))
  })

  it('that are GUIDs are the same in upper and lower case', async () => {
    const { fleet } = await standing()
    const id = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11'
    const first = await fleet.allocate({ buildID: 'arena', sessionID: id })
    expect(await fleet.allocate({ buildID: 'arena', sessionID: id.toUpperCase() })).toEqual(first)
  })
})
