/** The build writer: changes are batched, durable before they take effect, and reapplied after a conflict. */
import { FleetError } from 'gamekeeper'
import { type CallFault, faultyStore, type PlannedFault, scriptedFaults, virtualClock } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import { type BuildChange, BuildWriter } from '../../../src/engine/persistence/build-writer.js'
import { Inventory } from '../../../src/engine/state/inventory.js'
import type { Build } from '../../../src/rules/model/resources.js'
import { memoryStore } from '../../../src/stores/memory.js'
import { aBuildRecord } from '../support.js'

const on = (method: string, fault: CallFault): PlannedFault => ({ method: `builds.${method}`, fault })
const crashed: BuildChange = (build) => ({ ...build, crashes: build.crashes + 1 })
const wants =
  (standingBy: number): BuildChange =>
  (build) => ({ ...build, spec: { ...build.spec, standingBy } })

async function scene(script: readonly PlannedFault[] = []) {
  const clock = virtualClock()
  const records = memoryStore()
  const calls: string[] = []
  const planned = scriptedFaults(script)
  const store = faultyStore(records, {
    clock,
    calls: (call) => {
      calls.push(call.method.replace('builds.', ''))
      return planned(call)
    },
  })
  const told: number[] = []
  const inventory = new Inventory((change) => {
    if (change.type === 'build') told.push(change.build.record.crashes)
  })
  const record = aBuildRecord()
  const build = inventory.addBuild(record, await records.builds.create(record))
  const missing: string[] = []
  const writer = new BuildWriter(store, inventory, {
    idle: () => {},
    recordMissing: (gone) => void missing.push(gone.record.name),
  })
  const kept = async () => (await records.builds.get(record))?.record
  const writeElsewhere = async (change: (build: Build) => Build) => {
    const current = await records.builds.get(record)
    if (current) await records.builds.update(change(current.record), current.revision)
  }
  return { clock, records, calls, build, writer, told, missing, kept, writeElsewhere }
}

describe('the build writer', () => {
  it('makes a change durable before it takes effect', async () => {
    const { build, writer, kept } = await scene()
    const done = writer.change(build, crashed)
    expect(build.record.crashes).toBe(0)
    await done
    expect([build.record.crashes, (await kept())?.crashes]).toEqual([1, 1])
  })

  it('batches changes made during a write without losing any', async () => {
    const { build, writer, calls, kept, told } = await scene()
    await Promise.all(Array.from({ length: 50 }, () => writer.change(build, crashed)))
    expect([(await kept())?.crashes, calls, told]).toEqual([50, ['update', 'update'], [1, 50]])
  })

  it('writes nothing for a change without effect', async () => {
    const { build, writer, calls } = await scene()
    await writer.change(build, (record) => record)
    expect(calls).toEqual([])
  })

  it('finds that a record was deleted while it is read, although a write has succeeded in the meantime', async () => {
    const records = memoryStore()
    const inventory = new Inventory(() => {})
    const record = aBuildRecord()
    const build = inventory.addBuild(record, await records.builds.create(record))
    let proceed = () => {}
    const held = new Promise<void>((resolve) => (proceed = resolve))
    const get: typeof records.builds.get = async (ref) => {
      await held
      return records.builds.get(ref)
    }
    const store = { builds: { ...records.builds, get, update: records.builds.update.bind(records.builds) } }
    const writer = new BuildWriter(store, inventory, { idle: () => {}, recordMissing: () => {} })
    const exists = writer.refresh(build)
    await writer.change(build, crashed)
    await records.builds.delete(record, build.revision)
    proceed()
    expect(await exists).toBe(false)
  })

  it('can be used again after being idle', async () => {
    const { build, writer, kept } = await scene()
    await writer.change(build, crashed)
    expect(build.writing).toBe(false)
    await writer.change(build, crashed)
    expect((await kept())?.crashes).toBe(2)
  })

  it.each([
    ['was rejected', { kind: 'refuse' } as const],
    ['lost its reply', { kind: 'lose-reply' } as const],
    ['takes effect late', { kind: 'delay-effect', ms: 500 } as const],
  ])('applies a change once if its write %s', async (_, fault) => {
    const { clock, build, writer, kept } = await scene([on('update', fault)])
    await writer.change(build, crashed)
    await clock.advance(1_000)
    expect([build.record.crashes, (await kept())?.crashes]).toEqual([1, 1])
  })

  it('reapplies a change on top of what another writer has written', async () => {
    const { build, writer, kept, writeElsewhere } = await scene()
    await writeElsewhere(wants(7))
    await writer.change(build, crashed)
    expect(await kept()).toMatchObject({ crashes: 1, spec: { standingBy: 7 } })
    expect(build.record).toEqual(await kept())
  })

  it('rejects a change that throws, and applies the rest of the batch', async () => {
    const { build, writer, kept } = await scene()
    const refuse: BuildChange = () => {
      throw new FleetError('invalid', 'no')
    }
    const outcomes = await Promise.allSettled([
      writer.change(build, crashed),
      writer.change(build, refuse),
      writer.change(build, crashed),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((await kept())?.crashes).toBe(2)
  })

  it('never applies a rejected change, even if a later attempt would accept it', async () => {
    const { clock, build, writer, kept, writeElsewhere } = await scene([on('update', { kind: 'delay-reply', ms: 500 })])
    const onlyUponSeven: BuildChange = (record) => {
      if (record.spec.standingBy !== 7) throw new FleetError('invalid', 'not upon this')
      return wants(9)(record)
    }
    const first = writer.change(build, crashed)
    const others = Promise.allSettled([writer.change(build, onlyUponSeven), writer.change(build, crashed)])
    await clock.advance(100)
    await writeElsewhere(wants(7))
    await clock.advance(500)
    await first
    expect((await others).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(await kept()).toMatchObject({ crashes: 2, spec: { standingBy: 7 } })
  })

  it('rejects with not-found if the record is deleted or belongs to a later build with the same name', async () => {
    for (const successor of [false, true]) {
      const { records, build, writer, missing } = await scene()
      const current = await records.builds.get(build.record)
      await records.builds.delete(build.record, current?.revision ?? '')
      if (successor) await records.builds.create({ ...build.record, uid: 'later' })
      await expect(writer.change(build, crashed)).rejects.toMatchObject({ code: 'not-found' })
      expect([build.record.crashes, missing]).toEqual([0, [build.record.name]])
    }
  })

  it('rejects with the store’s error after several attempts, and then accepts further changes', async () => {
    const { build, writer, kept } = await scene(Array.from({ length: 5 }, () => on('update', { kind: 'refuse' })))
    await expect(writer.change(build, crashed)).rejects.toMatchObject({ code: 'unavailable' })
    await writer.change(build, crashed)
    expect((await kept())?.crashes).toBe(1)
  })
})

describe('a version reported by a watch', () => {
  const editedTo = async (
    { records, writeElsewhere, build }: Awaited<ReturnType<typeof scene>>,
    standingBy: number,
  ) => {
    await writeElsewhere(wants(standingBy))
    const found = await records.builds.get(build.record)
    if (!found) throw new Error('the build has no record')
    return found
  }

  it('is applied without reading the record, and the next write is based on it', async () => {
    const here = await scene()
    const { build, writer, calls, kept, told } = here
    expect(writer.accept(build, await editedTo(here, 7))).toBe(true)
    expect([build.record.spec.standingBy, calls, told]).toEqual([7, [], [0]])
    await writer.change(build, crashed)
    expect(await kept()).toMatchObject({ crashes: 1, spec: { standingBy: 7 } })
    expect(calls).toEqual(['update'])
  })

  it('changes nothing if this host already has that version', async () => {
    const { build, writer, told } = await scene()
    expect(writer.accept(build, { record: build.record, revision: build.revision })).toBe(true)
    expect(told).toEqual([])
  })

  it('is not applied while the record is being written, because the write may be newer', async () => {
    const here = await scene()
    const { build, writer } = here
    const found = await editedTo(here, 7)
    const written = writer.change(build, wants(3))
    expect(writer.accept(build, found)).toBe(false)
    await written
    expect(build.record.spec.standingBy).toBe(3)
  })

  it('is not applied while the outcome of a write is unknown', async () => {
    const here = await scene()
    here.writer.markUncertain(here.build)
    expect(here.writer.accept(here.build, await editedTo(here, 7))).toBe(false)
  })

  it('is not applied if it belongs to a later build with the same name', async () => {
    const { build, writer } = await scene()
    const found = { record: { ...build.record, uid: 'later' }, revision: 'other' }
    expect([writer.accept(build, found), build.record.uid]).toEqual([false, 'uid-of-arena'])
  })
})
