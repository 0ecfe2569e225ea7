/** Callers who wait for a server: first come, first served, and gone without a trace when they give up. */
import { FleetError } from 'gamekeeper'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import type { ServerEntry } from '../../../src/engine/state/entries.js'
import { retryGrace } from '../../../src/engine/allocation/retry-grace.js'
import { waitQueue } from '../../../src/engine/allocation/wait-queue.js'
import { aBuildRecord, aServerRecord, aSession, standsBy, stock } from '../support.js'

function openRoom() {
  const clock = virtualClock()
  const { inventory, build, add } = stock()
  let asked = 0
  const expected = retryGrace(clock, 10, () => void asked++)
  const room = waitQueue(clock, expected, () => void asked++)
  const outcomes: string[] = []
  let turns = 0
  const wait = (
    name: string,
    options: { waitMs?: number; signal?: AbortSignal; of?: typeof build; turn?: number } = {},
  ) => {
    const { waitMs = 1_000, signal, of = build, turn = ++turns } = options
    const timedOut = () => new FleetError('none-standing-by', 'the time is up')
    room
      .wait(of, { session: name, turn, waitMs, timedOut, signal }, (entry) => inventory.reserve(entry, aSession(1)))
      .then(
        (entry) => void outcomes.push(`${name} got ${entry?.record.name ?? 'none'}`),
        (error: unknown) => void outcomes.push(`${name} ${FleetError.is(error) ? error.code : String(error)}`),
      )
  }
  return { clock, inventory, build, add, room, expected, outcomes, wait, passesAsked: () => asked }
}

describe('the waiting room', () => {
  it('gives a server to whoever has waited for longest, reserved in the same tick', async () => {
    const { clock, add, room, outcomes, wait } = openRoom()
    for (const name of ['amie', 'bo', 'cem']) wait(name)
    const entries = ['arena-aaaaa', 'arena-bbbbb'].map((name) => add(name, standsBy))
    for (const entry of entries) room.serve(entry)
    expect(entries.map((entry) => entry.bucket)).toEqual(['reserved', 'reserved'])
    await clock.settle()
    expect(outcomes).toEqual(['amie got arena-aaaaa', 'bo got arena-bbbbb'])
    expect(room.total).toBe(1)
  })

  it('puts who comes back before all who came later, and behind who came before', async () => {
    const { clock, add, room, outcomes, wait } = openRoom()
    const turns = { bo: 2, dora: 4, amie: 1, cem: 3, emil: 5 }
    for (const [name, turn] of Object.entries(turns)) wait(name, { turn })
    const entries = ['a', 'b', 'c', 'd', 'e'].map((suffix) => add(`arena-${suffix.repeat(5)}`, standsBy))
    for (const entry of entries) room.serve(entry)
    await clock.settle()
    expect(outcomes.map((outcome) => outcome.split(' ')[0])).toEqual(['amie', 'bo', 'cem', 'dora', 'emil'])
  })

  it('keeps the builds apart', async () => {
    const { clock, inventory, build, room, outcomes, wait } = openRoom()
    const other = inventory.addBuild(aBuildRecord('duel'), '1')
    wait('amie')
    wait('bo', { of: other })
    expect([room.waiting(build), room.waiting(other), room.total]).toEqual([1, 1, 2])
    room.serve(inventory.addServer(other, aServerRecord(other.record, 'duel-aaaaa', standsBy), '1'))
    await clock.settle()
    expect(outcomes).toEqual(['bo got duel-aaaaa'])
  })

  it('serves nobody when nobody waits', () => {
    const { add, room } = openRoom()
    const entry = add('arena-aaaaa', standsBy)
    room.serve(entry)
    expect(entry.bucket).toBe('ready')
  })

  it('sends a caller away when its time is up, and the others wait on', async () => {
    const { clock, outcomes, build, room, wait } = openRoom()
    wait('amie', { waitMs: 500 })
    wait('bo', { waitMs: 2_000 })
    await clock.advance(499)
    expect(outcomes).toEqual([])
    await clock.advance(1)
    expect([outcomes, room.waiting(build)]).toEqual([['amie none-standing-by'], 1])
  })

  it('expects whoever it has sent away back for three seconds', async () => {
    const { clock, build, expected, wait } = openRoom()
    wait('amie', { waitMs: 500 })
    await clock.advance(500)
    expect(expected.count(build)).toBe(1)
    await clock.advance(2_999)
    expect(expected.count(build)).toBe(1)
    await clock.advance(1)
    expect([expected.count(build), clock.pending]).toEqual([0, 0])
  })

  it('expects nobody any more who waits again, and goes on expecting the others', async () => {
    const { clock, build, expected, wait } = openRoom()
    for (const name of ['amie', 'bo']) wait(name, { waitMs: 3_000 })
    await clock.advance(3_000)
    expect(expected.count(build)).toBe(2)
    wait('cem')
    expect(expected.count(build)).toBe(2)
    wait('bo')
    expect(expected.count(build)).toBe(1)
  })

  it('expects nobody back who gave up, or who was dismissed', async () => {
    const { clock, build, room, expected, wait } = openRoom()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo', { waitMs: 500 })
    aborter.abort()
    await clock.advance(500)
    expect(expected.count(build)).toBe(1)
    room.dismiss(new FleetError('not-found', 'the build was deleted'), build)
    await clock.settle()
    expect([expected.count(build), clock.pending]).toEqual([0, 0])
  })

  it('lets go of a caller whose session has got a server elsewhere, and serves the next one', async () => {
    const { clock, add, build, expected, room, outcomes, wait } = openRoom()
    wait('amie')
    wait('bo')
    room.served('amie')
    room.served('nobody')
    room.serve(add('arena-aaaaa', standsBy))
    await clock.settle()
    expect(outcomes).toEqual(['amie got none', 'bo got arena-aaaaa'])
    expect([room.total, room.waiting(build), expected.count(build), clock.pending]).toEqual([0, 0, 0, 0])
  })

  it('frees the place of a caller that gives up at once, and asks for a pass in the next turn', async () => {
    const { clock, outcomes, build, room, wait, passesAsked } = openRoom()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo')
    const before = passesAsked()
    aborter.abort()
    expect([room.waiting(build), room.total, passesAsked()]).toEqual([1, 1, before])
    await clock.advance(0)
    expect(outcomes).toEqual(['amie aborted'])
    expect(passesAsked()).toBe(before + 1)
  })

  it('asks for a pass with each caller who comes, since callers who wait are demand', () => {
    const { wait, passesAsked } = openRoom()
    wait('amie')
    wait('bo')
    expect(passesAsked()).toBe(2)
  })

  it('leaves neither timers nor listeners behind', async () => {
    const { clock, add, room, wait } = openRoom()
    const aborter = new AbortController()
    wait('amie', { signal: aborter.signal })
    wait('bo', { signal: aborter.signal })
    room.serve(add('arena-aaaaa', standsBy))
    aborter.abort()
    await clock.settle()
    expect([clock.pending, room.total]).toEqual([0, 0])
  })

  it('dismisses the callers of one build, or all', async () => {
    const { clock, inventory, build, room, outcomes, wait } = openRoom()
    const other = inventory.addBuild(aBuildRecord('duel'), '1')
    wait('amie')
    wait('bo', { of: other })
    wait('cem')
    room.dismiss(new FleetError('not-found', 'the build was deleted'), build)
    await clock.settle()
    expect(outcomes).toEqual(['amie not-found', 'cem not-found'])
    room.dismiss(new FleetError('closed', 'the host closes'))
    await clock.settle()
    expect([outcomes.at(-1), room.total, clock.pending]).toEqual(['bo closed', 0, 0])
  })

  it('serves a caller once only, though servers become ready one after the other in one tick', async () => {
    const { clock, add, room, outcomes, wait } = openRoom()
    wait('amie')
    const entries: ServerEntry[] = ['arena-aaaaa', 'arena-bbbbb'].map((name) => add(name, standsBy))
    for (const entry of entries) room.serve(entry)
    await clock.settle()
    expect(outcomes).toEqual(['amie got arena-aaaaa'])
    expect(entries[1]?.bucket).toBe('ready')
  })
})
