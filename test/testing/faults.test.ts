import { FleetError, type Instance, type InstanceSpec, type Store } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import {
  type CallFault,
  type EventFault,
  faultyBackend,
  type FaultyCall,
  faultyStore,
  randomFaults,
  scriptedFaults,
  virtualClock,
} from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'

const spec: InstanceSpec = {
  ref: { namespace: 'default', name: 'arena-00001' },
  uid: 'u1',
  build: { namespace: 'default', name: 'arena', uid: 'b1', buildID: 'arena' },
  template: {},
  portsToExpose: [],
  sdk: { heartbeatEndpoint: '', sessionHostId: 'arena-00001.secret', buildMetadata: {} },
}

function wrapped(fault: CallFault) {
  const clock = virtualClock()
  const inner = memoryBackend()
  const backend = faultyBackend(inner, { clock, calls: scriptedFaults([{ method: 'create', fault }]) })
  return { clock, backend, made: () => inner.servers().length }
}

describe('a faulty backend', () => {
  it('refuses a call before anything is done', async () => {
    const { backend, made } = wrapped({ kind: 'refuse' })
    await expect(backend.create(spec)).rejects.toMatchObject({ code: 'unavailable' })
    expect(made()).toBe(0)
    await backend.create(spec)
    expect(made()).toBe(1)
  })

  it('loses the reply of a call that was done', async () => {
    const error = new FleetError('unavailable', 'connection reset')
    const { backend, made } = wrapped({ kind: 'lose-reply', error })
    await expect(backend.create(spec)).rejects.toBe(error)
    expect(made()).toBe(1)
  })

  it('gives a reply late', async () => {
    const { clock, backend, made } = wrapped({ kind: 'delay-reply', ms: 500 })
    let reply: Instance | undefined
    const creating = backend.create(spec).then((instance) => (reply = instance))
    await clock.advance(499)
    expect([made(), reply]).toEqual([1, undefined])
    await clock.advance(1)
    expect(await creating).toMatchObject({ uid: 'u1' })
  })

  it('does late what it rejected', async () => {
    const { clock, backend, made } = wrapped({ kind: 'delay-effect', ms: 500 })
    await expect(backend.create(spec)).rejects.toMatchObject({ code: 'unavailable' })
    expect(made()).toBe(0)
    await clock.advance(500)
    expect(made()).toBe(1)
  })

  it('hangs until the caller gives up', async () => {
    const { clock, backend, made } = wrapped({ kind: 'hang' })
    const caller = new AbortController()
    let settled = false
    const creating = backend.create(spec, { signal: caller.signal }).finally(() => (settled = true))
    await clock.advance(3_600_000)
    expect([made(), settled]).toEqual([1, false])
    caller.abort()
    await expect(creating).rejects.toMatchObject({ code: 'aborted' })
  })

  it('says that a fault which takes time needs a clock', async () => {
    const backend = faultyBackend(memoryBackend(), { calls: () => ({ kind: 'delay-reply', ms: 1 }) })
    await expect(backend.create(spec)).rejects.toThrow(/needs a clock/)
  })

  it('drops, doubles, reorders and delays events', async () => {
    const clock = virtualClock()
    const inner = memoryBackend({ script: 'manual' })
    const faults: (EventFault | undefined)[] = [
      { kind: 'drop' },
      { kind: 'duplicate' },
      { kind: 'reorder' },
      undefined,
      { kind: 'delay', ms: 100 },
      undefined,
    ]
    const backend = faultyBackend(inner, { clock, events: () => faults.shift() })
    const told: string[] = []
    const stop = backend.watch({
      changed: ({ ref, phase }) => void told.push(`${ref.name} ${phase}`),
      gone: (ref) => void told.push(`${ref.name} gone`),
      resync: () => {},
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
    })
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await backend.create({ ...spec, ref: { namespace: 'default', name } })
    }
    await clock.settle()
    expect(told).toEqual(['b running', 'b running', 'd running', 'c running', 'f running'])
    await clock.advance(100)
    expect(told.slice(5)).toEqual(['e running'])
    stop()
    inner.server('a').exit(0)
    await clock.settle()
    expect(told).toHaveLength(6)
  })
})

describe('random faults', () => {
  it('are the same for the same seed, and about as many as asked for', () => {
    const draw = (seed: number) => {
      const plan = randomFaults<'x' | 'y'>({ seed, probability: 0.2, faults: ['x', 'y'] })
      return Array.from({ length: 5_000 }, () => plan(undefined))
    }
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    const met = draw(1).filter((fault) => fault !== undefined)
    expect(met.length).toBeGreaterThan(850)
    expect(met.length).toBeLessThan(1_150)
    expect(new Set(met)).toEqual(new Set(['x', 'y']))
  })
})

describe('a faulty store', () => {
  it('meets its calls by collection and method, and passes the others on', async () => {
    const calls: string[] = []
    const done: string[] = []
    const backing = storeThatNotes(done)
    const store = faultyStore(backing, {
      calls: (call: FaultyCall) => {
        calls.push(call.method)
        return call.method === 'servers.delete' ? { kind: 'lose-reply' } : undefined
      },
    })
    const ref = { namespace: 'default', name: 'a' }
    expect(await store.builds.get(ref)).toBeUndefined()
    expect(await store.details.list()).toEqual([])
    await expect(store.servers.delete(ref, '1')).rejects.toMatchObject({ code: 'unavailable' })
    await store.close()
    expect(calls).toEqual(['builds.get', 'details.list', 'servers.delete'])
    expect(done).toEqual(['get', 'list', 'delete', 'close'])
  })
})

function storeThatNotes(done: string[]): Store {
  const note = <T>(name: string, result: T) => {
    done.push(name)
    return Promise.resolve(result)
  }
  const collection = {
    get: () => note('get', undefined),
    list: () => note('list', []),
    create: () => note('create', '1'),
    update: () => note('update', '2'),
    delete: () => note('delete', undefined),
  }
  return {
    shared: false,
    builds: collection,
    servers: collection,
    details: collection,
    close: () => note('close', undefined),
  }
}
