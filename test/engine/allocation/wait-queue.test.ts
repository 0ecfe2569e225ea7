/** Callers that wait for a server: first come, first served, and no leaks when one gives up. */
import { FleetError } from 'gamekeeper'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import { RetryGrace } from '../../../src/engine/allocation/retry-grace.js'
import { selectorKeys } from '../../../src/engine/allocation/selective-index.js'
import { type SelectiveCaller, WaitQueue } from '../../../src/engine/allocation/wait-queue.js'
import { aBuildRecord, aServerRecord, aSession, hear, standsBy, stock, take } from '../support.js'

function setUp() {
  const clock = virtualClock()
  const { inventory, build, add } = stock()
  let enqueued = 0
  const retryGrace = new RetryGrace(clock, 10, () => void enqueued++)
  const queue = new WaitQueue(clock, retryGrace, () => void enqueued++)
  const outcomes: string[] = []
  let tickets = 0
  const wait = (
    name: string,
    options: {
      waitMs?: number
      signal?: AbortSignal
      of?: typeof build
      ticket?: number
      lastResort?: () => ServerEntry | undefined
      selective?: SelectiveCaller
    } = {},
  ) => {
    const { waitMs = 1_000, signal, of = build, ticket = ++tickets, lastResort = () => undefined, selective } = options
    const timeoutError = () => new FleetError('none-standing-by', 'timed out')
    queue
      .wait(
        { build: of, isDemand: true },
        { session: name, ticket, waitMs, lastResort, timeoutError, signal, selective },
        (entry) => take(inventory, entry, aSession(1)),
      )
      .then(
        (entry) => void outcomes.push(`${name} got ${entry?.record.name ?? 'none'}`),
        (error: unknown) => void outcomes.push(`${name} ${FleetError.is(error) ? error.code : String(error)}`),
      )
  }
  return { clock, inventory, build, add, queue, retryGrace, outcomes, wait, enqueued: () => enqueued }
}

describe('the wait queue', () => {
  it('gives a server to the caller that has waited longest, and reserves it in the same tick', async () => {
    const { clock, add, queue, outcomes, wait } = setUp()
    for (const name of ['amie', 'bo', 'cem']) wait(name)
    const entries = ['arena-aaaaa', 'arena-bbbbb'].map((name) => add(name, standsBy))
    for (const entry of entries) queue.serve(entry)
    expect(entries.map((entry) => entry.bucket)).toEqual(['reserved', 'reserved'])
    await clock.settle()
    expect(outcomes).toEqual(['amie got arena-aaaaa', 'bo got arena-bbbbb'])
    expect(queue.total).toBe(1)
  })

  it('restores a returning caller to its place in the order of arrival', async () => {
    const { clock, add, queue, outcomes, wait } = setUp()
    const tickets = { bo: 2, dora: 4, amie: 1, cem: 3, emil: 5 }
    for (const [name, ticket] of Object.entries(tickets)) wait(name, { ticket })
    const entries = ['a', 'b', 'c', 'd', 'e'].map((suffix) => add(`arena-${suffix.repeat(5)}`, standsBy))
    for (const entry of entries) queue.serve(entry)
    await clock.settle()
    expect(outcomes.map((outcome) => outcome.split(' ')[0])).toEqual(['amie', 'bo', 'cem', 'dora', 'emil'])
  })

  it('has a separate queue for each build', async () => {
    const { clock, inventory, build, queue, outcomes, wait } = setUp()
    const other = inventory.addBuild(aBuildRecord('duel'), '1')
    wait('amie')
    wait('bo', { of: other })
    expect([queue.waiting(build), queue.waiting(other), queue.total]).toEqual([1, 1, 2])
    const entry = inventory.addServer(other, aServerRecord(other.record, 'duel-aaaaa', standsBy), '1')
    hear(inventory, entry)
    queue.serve(entry)
    await clock.settle()
    expect(outcomes).toEqual(['bo got duel-aaaaa'])
  })

  it('leaves a server ready when no caller waits', () => {
    const { add, queue } = setUp()
    const entry = add('arena-aaaaa', standsBy)
    queue.serve(entry)
    expect(entry.bucket).toBe('ready')
  })

  it('fails a caller at its timeout, and keeps the others waiting', async () => {
    const { clock, outcomes, build, queue, wait } = setUp()
    wait('amie', { waitMs: 500 })
    wait('bo', { waitMs: 2_000 })
    await clock.advance(499)
    expect(outcomes).toEqual([])
    await clock.advance(1)
    expect([outcomes, queue.waiting(build)]).toEqual([['amie none-standing-by'], 1])
  })

  it('gives a caller its last resort at its timeout, also while an earlier caller still waits', async () => {
    const { clock, add, queue, build, retryGrace, outcomes, wait } = setUp()
    const entry = add('arena-aaaaa', standsBy)
    wait('amie', { waitMs: 2_000, lastResort: () => entry })
    wait('bo', { waitMs: 500, lastResort: () => entry })
    await clock.advance(499)
    expect([outcomes, entry.bucket]).toEqual([[], 'ready'])
    await clock.advance(1)
    expect([outcomes, entry.bucket, queue.waiting(build)]).toEqual([['bo got arena-aaaaa'], 'reserved', 1])
    expect(retryGrace.count(build)).toBe(0)
  })

  it('ends the wait of one session early with a given server', async () => {
    const { clock, add, queue, outcomes, wait } = setUp()
    const entry = add('arena-aaaaa', standsBy)
    wait('amie')
    wait('bo')
    expect(['cem', 'bo', 'bo'].map((name) => queue.serveSession(name, entry))).toEqual([false, true, false])
    await clock.settle()
    expect([outcomes, queue.total]).toEqual([['bo got arena-aaaaa'], 1])
  })

  it('counts a caller for three seconds after its timeout', async () => {
    const { clock, build, retryGrace, wait } = setUp()
    wait('amie', { waitMs: 500 })
    await clock.advance(500)
    expect(retryGrace.count(build)).toBe(1)
    await clock.advance(2_999)
    expect(retryGrace.count(build)).toBe(1)
    await clock.advance(1)
    expect([retryGrace.count(build), clock.pending]).toEqual([0, 0])
  })

  it('stops counting a caller that waits again, but keeps counting the others', async () => {
    const { clock, build, retryGrace, wait } = setUp()
    for (const name of ['amie', 'bo']) wait(name, { waitMs: 3_000 })
    await clock.advance(3_000)
    expect(retryGrace.count(build)).toBe(2)
    wait('cem')
    expect(retryGrace.count(build)).toBe(2)
    wait('bo')
    expect(retryGrace.count(build)).toBe(1)
  })

  it('does not count a caller that aborted or was rejected', async () => {
    const { clock, build, queue, retryGrace, wait } = setUp()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo', { waitMs: 500 })
    aborter.abort()
    await clock.advance(500)
    expect(retryGrace.count(build)).toBe(1)
    queue.rejectAll(new FleetError('not-found', 'the build was deleted'), build)
    await clock.settle()
    expect([retryGrace.count(build), clock.pending]).toEqual([0, 0])
  })

  it('ends the wait of a session that already has a server, and serves the next caller', async () => {
    const { clock, add, build, retryGrace, queue, outcomes, wait } = setUp()
    wait('amie')
    wait('bo')
    queue.sessionAllocated('amie')
    queue.sessionAllocated('nobody')
    queue.serve(add('arena-aaaaa', standsBy))
    await clock.settle()
    expect(outcomes).toEqual(['amie got none', 'bo got arena-aaaaa'])
    expect([queue.total, queue.waiting(build), retryGrace.count(build), clock.pending]).toEqual([0, 0, 0, 0])
  })

  it('removes an aborted caller at once, and queues a reconcile in the next tick', async () => {
    const { clock, outcomes, build, queue, wait, enqueued } = setUp()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo')
    const before = enqueued()
    aborter.abort()
    expect([queue.waiting(build), queue.total, enqueued()]).toEqual([1, 1, before])
    await clock.advance(0)
    expect(outcomes).toEqual(['amie aborted'])
    expect(enqueued()).toBe(before + 1)
  })

  it('queues a reconcile for each new caller, since waiting callers are demand', () => {
    const { wait, enqueued } = setUp()
    wait('amie')
    wait('bo')
    expect(enqueued()).toBe(2)
  })

  it('leaves no timers or listeners behind', async () => {
    const { clock, add, queue, wait } = setUp()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo', { signal: aborter.signal })
    queue.serve(add('arena-aaaaa', standsBy))
    aborter.abort()
    await clock.settle()
    expect([clock.pending, queue.total]).toEqual([0, 0])
  })

  it('rejects the callers of one build, or all callers', async () => {
    const { clock, inventory, build, queue, outcomes, wait } = setUp()
    const other = inventory.addBuild(aBuildRecord('duel'), '1')
    wait('amie')
    wait('bo', { of: other })
    wait('cem')
    queue.rejectAll(new FleetError('not-found', 'the build was deleted'), build)
    await clock.settle()
    expect(outcomes).toEqual(['amie not-found', 'cem not-found'])
    queue.rejectAll(new FleetError('closed', 'the host closes'))
    await clock.settle()
    expect([outcomes.at(-1), queue.total, clock.pending]).toEqual(['bo closed', 0, 0])
  })

  it('serves a caller only once when several servers become ready in one tick', async () => {
    const { clock, add, queue, outcomes, wait } = setUp()
    wait('amie')
    const entries: ServerEntry[] = ['arena-aaaaa', 'arena-bbbbb'].map((name) => add(name, standsBy))
    for (const entry of entries) queue.serve(entry)
    await clock.settle()
    expect(outcomes).toEqual(['amie got arena-aaaaa'])
    expect(entries[1]?.bucket).toBe('ready')
  })

  it('reconsiders only callers that name the build that has changed, in the order of arrival', () => {
    const { build, queue, wait } = setUp()
    const reconsidered: string[] = []
    const spec = (buildID: string, labels = {}) => ({ ...build.record.spec, buildID, labels })
    const naming = (...builds: string[]): SelectiveCaller => ({
      buildKeys: selectorKeys({ builds }),
      accepts: () => false,
      reconsider() {
        reconsidered.push(builds.join())
        return { build, isDemand: true }
      },
    })
    wait('amie', { selective: naming('duel', 'old', 'old') })
    wait('bo', { selective: naming('other') })
    wait('cem', { selective: naming('old', 'new') })
    wait('dora', { selective: naming('new'), ticket: 1 })
    const labelled = {
      ...naming('by label'),
      buildKeys: selectorKeys({ buildLabels: { game: 'arena', track: 'canary' } }),
    }
    wait('eve', { selective: labelled })
    queue.reconsider(spec('old'), spec('new'))
    expect(reconsidered).toEqual(['duel,old,old', 'new', 'old,new'])
    queue.reconsider(spec('gone', { game: 'duel' }))
    expect(reconsidered).toHaveLength(3)
    queue.reconsider(spec('old', { track: 'stable', game: 'arena' }))
    expect(reconsidered.slice(3)).toEqual(['duel,old,old', 'old,new', 'by label'])
    expect([queue.demand(build), queue.selectiveDemand(build)]).toEqual([5, 5])
  })
})
