/** Scaling one build: how much of the plan a reconcile executes, and which servers terminate first. */
import { describe, expect, it } from 'vitest'
import { countsOf } from '../../../src/engine/state/queries.js'
import { Scaler } from '../../../src/engine/reconcile/scaler.js'
import { contextOf, standsBy, stock, take } from '../support.js'

function setUp(spec: { standingBy: number; max: number }, limits = {}) {
  const { inventory, build, add } = stock()
  inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, ...spec } }, '2')
  const { ctx, asked, clock } = contextOf(inventory, { limits })
  const scaler = new Scaler(ctx, {
    policies: { decide: () => undefined, hold: () => undefined, spareAged: () => undefined },
    budget: undefined,
    callers: () => 0,
    choosyCallers: () => ({ unfit: 0, choosy: 0 }),
    protectedSurplus: () => 0,
    isDraining: () => false,
    validateSpec: () => true,
  })
  const ended = () => Array.from(build.buckets.terminating, ({ record }) => record.name)
  return { inventory, build, add, asked, clock, ended, scale: () => scaler.scale(build) }
}

describe('the scaler', () => {
  it('creates at most 20 servers per run, and queues the build again while more are needed', () => {
    const { build, scale, asked } = setUp({ standingBy: 45, max: 100 })
    scale()
    expect([countsOf(build).pending, asked]).toEqual([20, ['arena']])
    scale()
    expect([countsOf(build).pending, asked]).toEqual([40, ['arena', 'arena']])
    scale()
    expect([countsOf(build).pending, asked]).toEqual([45, ['arena', 'arena']])
  })

  it('terminates at most 20 servers per run, and queues the build again while a surplus remains', () => {
    const { build, add, scale, asked } = setUp({ standingBy: 0, max: 100 })
    for (let i = 0; i < 45; i++) add(`arena-${i}`, standsBy)
    scale()
    expect([countsOf(build).standingBy, asked]).toEqual([25, ['arena']])
    scale()
    scale()
    expect([countsOf(build).standingBy, countsOf(build).terminating]).toEqual([0, 45])
    expect(asked).toEqual(['arena', 'arena'])
  })

  it('does nothing when the build matches its spec', () => {
    const { add, build, scale, asked } = setUp({ standingBy: 1, max: 2 })
    add('arena-ready', standsBy)
    expect(scale()).toBeUndefined()
    expect([asked, countsOf(build)]).toEqual([
      [],
      { pending: 0, initializing: 0, standingBy: 1, active: 0, terminating: 0 },
    ])
  })

  it('terminates Pending servers first, then Initializing, then unallocatable ones, then those ready longest', () => {
    const { add, ended, scale } = setUp({ standingBy: 0, max: 10 }, { maxDeletesPerReconcile: 1 })
    add('ready-1', standsBy)
    add('ready-2', standsBy)
    add('unhealthy', { ...standsBy, health: 'Unhealthy' })
    add('initializing', { state: 'Initializing' })
    add('pending')
    add('active', { ...standsBy, state: 'Active' })
    for (let i = 0; i < 8; i++) scale()
    expect(ended()).toEqual(['pending', 'initializing', 'unhealthy', 'ready-1', 'ready-2'])
  })

  it('terminates the newest of the starting servers first', () => {
    const { add, ended, scale } = setUp({ standingBy: 2, max: 10 }, { maxDeletesPerReconcile: 1 })
    for (const name of ['initializing-1', 'initializing-2', 'initializing-3']) add(name, { state: 'Initializing' })
    for (const name of ['pending-1', 'pending-2']) add(name)
    for (let i = 0; i < 8; i++) scale()
    expect(ended()).toEqual(['pending-2', 'pending-1', 'initializing-3'])
  })

  it('counts a server that is being allocated as Active, and does not terminate it', () => {
    const { inventory, add, build, ended, scale } = setUp({ standingBy: 1, max: 2 })
    const server = add('arena-ready', standsBy)
    take(inventory, server, { id: 's', initialPlayers: [] })
    scale()
    expect([countsOf(build).pending, ended()]).toEqual([1, []])
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, standingBy: 0, max: 0 } }, '3')
    scale()
    expect(ended()).not.toContain('arena-ready')
  })

  it('gives every server a unique name and a unique secret', () => {
    const { inventory, scale, build } = setUp({ standingBy: 20, max: 20 })
    scale()
    const records = Array.from(build.buckets.pending, ({ record }) => record)
    expect(new Set(records.map(({ token }) => token)).size).toBe(20)
    expect(new Set(records.map(({ uid }) => uid)).size).toBe(20)
    for (const { name, token } of records) {
      expect(name).toMatch(/^arena-[a-z0-9]{5}$/)
      expect(token).toMatch(/^[0-9a-f]{32}$/)
    }
    expect(inventory.servers.size).toBe(20)
  })

  it('creates nothing during the back-off after a crash, and returns the time until the back-off ends', () => {
    const { build, scale, clock } = setUp({ standingBy: 1, max: 1 })
    build.backoff = { failures: 1, until: clock.elapsed() + 1_000 }
    expect([scale(), countsOf(build).pending]).toEqual([1_000, 0])
  })

  it('does nothing for a deleted build', () => {
    const { inventory, build, scale } = setUp({ standingBy: 1, max: 1 })
    inventory.deleteBuild(build)
    expect([scale(), countsOf(build).pending]).toEqual([undefined, 0])
  })
})
