/** Allocations that are written together, on the real cluster: leaders that die, two at once, and operators that edit the journal. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { openKubernetesStore } from '../../../../../adapters/kubernetes/store/store.js'
import { type Clock, systemClock } from '../../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../../src/contracts/logger.js'
import type { Server } from '../../../../../src/rules/model/resources.js'
import { defaultApiGroup } from '../../../../../src/rules/model/wire.js'
import { minimalServer } from '../../../../../src/testing/records.js'
import { kubectl } from '../../support/cluster.js'
import { describeOnCluster } from '../../support/describe-on-cluster.js'
import { ownNamespaces } from '../../support/own-namespace.js'

const servers = 20
const waitOptions = { timeout: 60_000, interval: 100 }

describeOnCluster('the journal of a fleet', () => {
  const { api, make } = ownNamespaces()

  /** A store whose host leads. `pause` keeps its statuses from following, as on a host that has died. */
  async function lead(namespace: string, term = 1) {
    let isPaused = false
    const held: (() => void)[] = []
    let pausedAt = 0
    const clock: Clock = {
      ...systemClock,
      elapsed: () => (isPaused ? pausedAt : systemClock.elapsed()),
      after: (ms, fn) => systemClock.after(ms, () => void (isPaused ? held.push(fn) : fn())),
    }
    const options = { api, clock, logger: silentLogger, group: defaultApiGroup, systemNamespace: namespace }
    const store = await openKubernetesStore({ ...options, namespaces: [namespace], term: () => term })
    onTestFinished(() => store.close())
    return {
      store,
      listed: await store.servers.list(),
      pause() {
        pausedAt = systemClock.elapsed()
        isPaused = true
      },
      resume() {
        isPaused = false
        for (const fn of held.splice(0)) fn()
      },
      /** All at once. */
      async allocate(prefix: string) {
        const idle = (await store.servers.list()).filter(({ record }) => record.sessions[0] === undefined)
        const granted = idle.map(({ record, revision }) => {
          const session = { id: `${prefix}-${record.name}`, initialPlayers: [], number: 1, startedAt: 0 }
          const active: Server = { ...record, state: 'Active', sessions: [session], startedSessions: 1 }
          return store.servers.update(active, revision).then(() => session.id)
        })
        return Promise.all(granted)
      },
    }
  }

  async function scene() {
    const namespace = await make()
    const leader = await lead(namespace)
    const names = Array.from({ length: servers }, (_, n) => `arena-${n}`)
    const add = (prefix: string) =>
      Promise.all(
        names.map((name) => {
          const ref = { namespace, name: `${prefix}${name}` }
          return leader.store.servers.create({ ...minimalServer(ref), uid: ref.name, state: 'StandingBy' })
        }),
      )
    await add('')
    return { namespace, leader, add }
  }

  async function shown(namespace: string): Promise<readonly string[]> {
    const text = await kubectl('get', 'gs', '-n', namespace, '-o', 'jsonpath={.items[*].status.sessionID}')
    return text.split(' ').filter((session) => session !== '')
  }

  async function entries(namespace: string): Promise<number> {
    const text = await kubectl('get', 'gsj', '-n', namespace, '-o', 'json')
    return JSON.parse(text).items.flatMap(({ spec }: { spec: { entries: unknown[] } }) => spec.entries).length
  }

  /** Every session is shown by the status of one server, and the journal is empty. */
  async function complete(namespace: string, sessions: readonly string[]) {
    await vi.waitFor(async () => {
      expect((await shown(namespace)).toSorted()).toEqual(sessions.toSorted())
      expect(await entries(namespace)).toBe(0)
    }, waitOptions)
  }

  it('holds sessions that were allocated together; the statuses follow', { timeout: 300_000 }, async () => {
    const { namespace, leader } = await scene()
    leader.pause()
    const sessions = await leader.allocate('match')
    expect(sessions).toHaveLength(servers)
    // The first two were written by themselves.
    expect(await shown(namespace)).toHaveLength(2)
    expect(await entries(namespace)).toBe(servers - 2)
    leader.resume()
    await complete(namespace, sessions)
  })

  it('is carried out by the next leader if the last one dies', { timeout: 300_000 }, async () => {
    const { namespace, leader } = await scene()
    leader.pause()
    const sessions = await leader.allocate('match')
    const next = await lead(namespace, 2)
    const listed = next.listed.map(({ record }) => String(record.sessions[0]?.id))
    expect(listed.toSorted()).toEqual(sessions.toSorted())
    await complete(namespace, sessions)
    // The last leader was only cut off. What it has known is not written again.
    leader.resume()
    await expect(leader.allocate('late')).resolves.toEqual([])
    expect((await shown(namespace)).toSorted()).toEqual(sessions.toSorted())
  })

  it(
    'is restored when it is deleted or edited, and its sessions keep their servers',
    { timeout: 300_000 },
    async () => {
      const { namespace, leader, add } = await scene()
      leader.pause()
      const first = await leader.allocate('first')
      await kubectl('delete', 'gsj', '--all', '-n', namespace)
      await add('more-')
      const second = await leader.allocate('second')
      const nonsense = JSON.stringify({ spec: { entries: ['nonsense'] } })
      const name = await kubectl('get', 'gsj', '-n', namespace, '-o', 'name')
      await kubectl('patch', name.trim(), '-n', namespace, '--type=merge', '-p', nonsense)
      await add('last-')
      const third = await leader.allocate('third')
      leader.resume()
      await complete(namespace, [...first, ...second, ...third])
      await vi.waitFor(async () => {
        const events = await kubectl('get', 'events', '-n', namespace, '-o', 'jsonpath={.items[*].reason}')
        expect(events).toContain('JournalEdited')
      }, waitOptions)
    },
  )

  it('of two leaders, only the last one writes it, and no session gets two servers', { timeout: 300_000 }, async () => {
    const { namespace, leader } = await scene()
    const other = await lead(namespace, 2)
    const outcomes = await Promise.allSettled([leader.allocate('one'), other.allocate('two')])
    const answered = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? outcome.value : []))
    await vi.waitFor(async () => {
      expect(await entries(namespace)).toBe(0)
      const sessions = await shown(namespace)
      expect(new Set(sessions).size).toBe(sessions.length)
      for (const session of answered) expect(sessions).toContain(session)
    }, waitOptions)
  })
})
