/** One pass over a build: how much of its plan it carries out, and whom it ends first. */
import { describe, expect, it } from 'vitest'
import { countsOf } from '../../../src/engine/state/queries.js'
import { scaler } from '../../../src/engine/reconcile/scaler.js'
import { standsBy, stock, surroundings } from '../support.js'

function scene(spec: { standingBy: number; max: number }, limits = {}) {
  const { inventory, build, add } = stock()
  inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, ...spec } }, '2')
  const { ctx, asked, clock } = surroundings(inventory, { limits })
  const scale = scaler(ctx, { callers: () => 0, spared: () => 0, isDraining: () => false, breaksRule: () => false })
  const ended = () => Array.from(build.buckets.terminating, ({ record }) => record.name)
  return { inventory, build, add, scale, asked, clock, ended, pass: () => scale(build) }
}

describe('a pass', () => {
  it('begins no more than 20 servers, and asks for the next pass at once while more are wanted', () => {
    const { build, pass, asked } = scene({ standingBy: 45, max: 100 })
    pass()
    expect([countsOf(build).pending, asked]).toEqual([20, ['arena']])
    pass()
    expect([countsOf(build).pending, asked]).toEqual([40, ['arena', 'arena']])
    pass()
    expect([countsOf(build).pending, asked]).toEqual([45, ['arena', 'arena']])
  })

  it('ends no more than 20 servers, and asks for the next pass at once while more are to end', () => {
    const { build, add, pass, asked } = scene({ standingBy: 0, max: 100 })
    for (let i = 0; i < 45; i++) add(`arena-${i}`, standsBy)
    pass()
    expect([countsOf(build).standingBy, asked]).toEqual([25, ['arena']])
    pass()
    pass()
    expect([countsOf(build).standingBy, countsOf(build).terminating]).toEqual([0, 45])
    expect(asked).toEqual(['arena', 'arena'])
  })

  it('does nothing when all is as it should be', () => {
    const { add, build, pass, asked } = scene({ standingBy: 1, max: 2 })
    add('arena-ready', standsBy)
    expect(pass()).toBeUndefined()
    expect([asked, countsOf(build)]).toEqual([
      [],
      { pending: 0, initializing: 0, standingBy: 1, active: 0, terminating: 0 },
    ])
  })

  it('ends Pending first, then Initializing, then those that cannot be handed out, then the first ready', () => {
    const { add, ended, pass } = scene({ standingBy: 0, max: 10 }, { maxDeletesPerReconcile: 1 })
    add('ready-1', standsBy)
    add('ready-2', standsBy)
    add('unhealthy', { ...standsBy, health: 'Unhealthy' })
    add('initializing', { state: 'Initializing' })
    add('pending')
    add('active', { ...standsBy, state: 'Active' })
    for (let i = 0; i < 8; i++) pass()
    expect(ended()).toEqual(['pending', 'initializing', 'unhealthy', 'ready-1', 'ready-2'])
  })

  it('ends those on their way to ready from the youngest on', () => {
    const { add, ended, pass } = scene({ standingBy: 2, max: 10 }, { maxDeletesPerReconcile: 1 })
    for (const name of ['initializing-1', 'initializing-2', 'initializing-3']) add(name, { state: 'Initializing' })
    for (const name of ['pending-1', 'pending-2']) add(name)
    for (let i = 0; i < 8; i++) pass()
    expect(ended()).toEqual(['pending-2', 'pending-1', 'initializing-3'])
  })

  it('takes a server that is being handed out for Active: it neither ends it nor counts it as idle', () => {
    const { inventory, add, build, ended, pass } = scene({ standingBy: 1, max: 2 })
    const server = add('arena-ready', standsBy)
    inventory.reserve(server, { id: 's', initialPlayers: [] })
    pass()
    expect([countsOf(build).pending, ended()]).toEqual([1, []])
    inventory.replaceBuild(build, { ...build.record, spec: { ...build.record.spec, standingBy: 0, max: 0 } }, '3')
    pass()
    expect(ended()).not.toContain('arena-ready')
  })

  it('gives every server a name and a secret of its own', () => {
    const { inventory, pass, build } = scene({ standingBy: 20, max: 20 })
    pass()
    const records = Array.from(build.buckets.pending, ({ record }) => record)
    expect(new Set(records.map(({ token }) => token)).size).toBe(20)
    expect(new Set(records.map(({ uid }) => uid)).size).toBe(20)
    for (const { name, token } of records) {
      expect(name).toMatch(/^arena-[a-z0-9]{5}$/)
      expect(token).toMatch(/^[0-9a-f]{32}$/)
    }
    expect(inventory.servers.size).toBe(20)
  })

  it('waits out the pause after a crash, and says when to come again', () => {
    const { build, pass, clock } = scene({ standingBy: 1, max: 1 })
    build.backoff = { failures: 1, until: clock.elapsed() + 1_000 }
    expect([pass(), countsOf(build).pending]).toEqual([1_000, 0])
  })

  it('leaves a build alone that was deleted', () => {
    const { inventory, build, pass } = scene({ standingBy: 1, max: 1 })
    inventory.deleteBuild(build)
    expect([pass(), countsOf(build).pending]).toEqual([undefined, 0])
  })
})
