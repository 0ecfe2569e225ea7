/** What the page reads again after events, while other events arrive. */
import { beforeEach, expect, it } from 'vitest'
import { emptyModel, type Model, type StreamedEvent, withBuild } from '../../../src/dashboard/page/data/model.js'
import { reduce } from '../../../src/dashboard/page/data/reduce.js'
import { rereads } from '../../../src/dashboard/page/data/rereads.js'
import { playersFound, sessionsOf } from '../../../src/dashboard/page/data/search.js'
import type { GameServerBuild } from '../../../src/rules/model/wire.js'
import { advance, fakeTimers } from './fake-timers.js'

const build = { namespace: 'default', name: 'arena' }
const key = 'default/arena'
let seq = 0
const base = () => ({ seq: ++seq, at: 0, message: 'it happened', build })
const server = (name: string) => ({ namespace: 'default', name })
const about = (name: string) => ({ ...base(), server: server(name) })
const created = (): StreamedEvent => ({ type: 'BuildCreated', ...base() })
const updated = (of = build): StreamedEvent => ({ type: 'BuildUpdated', ...base(), build: of })
const deleted = (): StreamedEvent => ({ type: 'BuildDeleted', ...base() })
const began = (name: string): readonly StreamedEvent[] => [
  { type: 'ServerStateChanged', ...about(name), from: 'StandingBy', to: 'Active' },
  { type: 'Allocated', ...about(name), sessionID: `match-${name}`, waitedMs: 1 },
]
const withMax = (max: number): GameServerBuild => ({
  apiVersion: 'v1',
  kind: 'GameServerBuild',
  metadata: build,
  spec: { buildID: 'arena-1.0', standingBy: 1, max, portsToExpose: [], template: {} },
  status: {
    currentActive: 0,
    currentStandingBy: 0,
    crashesCount: 0,
    currentPending: 0,
    currentInitializing: 0,
    health: 'Healthy',
    currentStandingByReadyDesired: '0/1',
  },
})
const sessionOn = (name: string, initialPlayers: readonly string[]) => ({
  sessionID: `match-${name}`,
  buildID: 'arena-1.0',
  build,
  server: server(name),
  state: 'Active' as const,
  address: '',
  ports: [],
  initialPlayers,
  players: [],
})

/** A page's model over a host whose answers the test gives. */
function page(begin: Model = withBuild(emptyModel, withMax(2))) {
  const model = { value: begin }
  const builds: Deferred<GameServerBuild>[] = []
  const sessions: { readonly id: string; readonly answer: Deferred<never> }[] = []
  const ask = <T>(into: Deferred<T>[]) => {
    const asked = deferred<T>()
    into.push(asked)
    return asked.promise
  }
  const reread = rereads(
    {
      builds: { get: () => ask(builds) },
      sessions: {
        get(id: string) {
          const answer = deferred<never>()
          sessions.push({ id, answer })
          return answer.promise
        },
      },
    },
    model,
  )
  return {
    ...{ model, builds, sessions, reread },
    /** As the page does when events arrive. */
    arrive(...events: readonly StreamedEvent[]) {
      model.value = reduce(model.value, events)
      reread.builds(events)
      reread.players(events)
    },
    max: () => model.value.builds.get(key)?.spec.max,
  }
}

interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}

function deferred<T>(): Deferred<T> {
  let resolve: Deferred<T>['resolve'] = () => {}
  let reject: Deferred<T>['reject'] = () => {}
  const promise = new Promise<T>((yes, no) => ([resolve, reject] = [yes, no]))
  return { promise, resolve, reject }
}

beforeEach(fakeTimers)
const soon = () => advance(1_000)

it('events that arrive while a build is read are not lost', async () => {
  const { model, builds, arrive, max } = page()
  arrive({ type: 'ServerCreated', ...about('a') }, updated())
  await soon()
  arrive({ type: 'ServerRemoved', ...about('a') })
  builds[0]?.resolve(withMax(5))
  await soon()
  expect(max()).toBe(5)
  expect([...(model.value.servers.get(key)?.keys() ?? [])]).toEqual([])
})

it('a build that changes while it is read is read again afterwards, and a burst of changes is one request', async () => {
  const { builds, arrive, max } = page()
  arrive(updated(), updated())
  await soon()
  for (let n = 0; n < 5; n++) arrive(updated())
  await soon()
  expect(builds).toHaveLength(1)
  builds[0]?.resolve(withMax(5))
  await soon()
  expect(builds).toHaveLength(2)
  builds[1]?.resolve(withMax(6))
  await soon()
  expect([max(), builds.length]).toEqual([6, 2])
})

it('a build that is deleted while it is read does not come back, unless it is created again', async () => {
  const { builds, arrive, max } = page()
  arrive(updated())
  await soon()
  arrive(deleted())
  builds[0]?.resolve(withMax(5))
  await soon()
  expect(max()).toBeUndefined()
  arrive(created())
  await soon()
  builds[1]?.resolve(withMax(6))
  await soon()
  expect(max()).toBe(6)
})

it('a build that was deleted and created again before a snapshot stays', () => {
  const { arrive, max } = page()
  arrive(deleted(), created())
  expect(max()).toBe(2)
})

it('after signing out, what was still to be read is not asked for', async () => {
  const lobby = { ...withMax(1), metadata: { ...build, name: 'lobby' } }
  const { builds, reread, arrive } = page(withBuild(withBuild(emptyModel, withMax(2)), lobby))
  arrive(updated(), updated(lobby.metadata))
  await soon()
  reread.forget()
  builds[0]?.resolve(withMax(5))
  await soon()
  expect(builds).toHaveLength(1)
})

it('players of a match that begins while others are read are read, too, the latest first', async () => {
  const { model, sessions, arrive } = page()
  arrive(...began('a'))
  arrive(...began('b'), ...began('c'))
  expect(sessions.map(({ id }) => id)).toEqual(['match-a'])
  for (const [index, name] of ['a', 'c', 'b'].entries()) {
    sessions[index]?.answer.resolve(sessionOn(name, [`player-${name}`]) as never)
    await soon()
  }
  expect(playersFound(model.value, '').map(({ player }) => player)).toEqual(['player-a', 'player-b', 'player-c'])
})

it('of a burst of allocations, only the latest are read', async () => {
  const { sessions, arrive } = page()
  arrive(...Array.from({ length: 30 }, (_, index) => began(`s-${index}`)).flat())
  for (let n = 0; n < 30; n++) {
    sessions[n]?.answer.reject(new Error('it is over'))
    await soon()
  }
  expect(sessions.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, index) => `match-s-${29 - index}`))
})

it('players that a game reports meanwhile are newer than those that are expected', async () => {
  const { model, sessions, arrive } = page()
  arrive(...began('a'))
  arrive({ type: 'PlayersChanged', ...about('a'), players: ['bob'] })
  sessions[0]?.answer.resolve(sessionOn('a', ['amie']) as never)
  await soon()
  expect(sessionsOf(model.value, '')[0]?.players).toEqual(['bob'])
})

it('after signing out, nothing that was being read appears', async () => {
  const { model, builds, sessions, reread, arrive } = page()
  arrive(updated(), ...began('a'))
  await soon()
  reread.forget()
  model.value = emptyModel
  builds[0]?.resolve(withMax(5))
  sessions[0]?.answer.resolve(sessionOn('a', ['amie']) as never)
  await soon()
  expect(model.value).toEqual(emptyModel)
})
