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
  it('rejects a call, which then has no effect', async () => {
    const { backend, made } = wrapped({ kind: 'refuse' })
    await expect(backend.create(spec)).rejects.toMatchObject({ code: 'unavailable' })
    expect(made()).toBe(0)
    await backend.create(spec)
    expect(made()).toBe(1)
  })

  it('loses the reply to a call that took effect', async () => {
    const error = new FleetError('unavailable', 'connection reset')
    const { backend, made } = wrapped({ kind: 'lose-reply', error })
    await expect(backend.create(spec)).rejects.toBe(error)
    expect(made()).toBe(1)
  })

  it('delays a reply', async () => {
    const { clock, backend, made } = wrapped({ kind: 'delay-reply', ms: 500 })
    let reply: Instance | undefined
    const creating = backend.create(spec).then((instance) => (reply = instance))
    await clock.advance(499)
    expect([made(), reply]).toEqual([1, undefined])
    await clock.advance(1)
    expect(await creating).toMatchObject({ uid: 'u1' })
  })

  it('applies the effect of a rejected call later', async () => {
    const { clock, backend, made } = wrapped({ kind: 'delay-effect', ms: 500 })
    await expect(backend.create(spec)).rejects.toMatchObject({ code: 'unavailable' })
    expect(made()).toBe(0)
    await clock.advance(500)
    expect(made()).toBe(1)
  })

  it('hangs until the caller aborts', async () => {
    const { clock, backend, made } = wrapped({ kind: 'hang' })
    const caller = new AbortController()
    let settled = false
    const creating = backend.create(spec, { signal: caller.signal }).finally(() => (settled = true))
    await clock.advance(3_600_000)
    expect([made(), settled]).toEqual([1, false])
    caller.abort()
    await expect(creating).rejects.toMatchObject({ code: 'aborted' })
  })

  it('rejects a timed fault without a clock', async () => {
    const backend = faultyBackend(memoryBackend(), { calls: () => ({ kind: 'delay-reply', ms: 1 }) })
    await expect(backend.create(spec)).rejects.toThrow(/needs the `clock` option/)
  })

  it('drops, duplicates, reorders and delays events', async () => {
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
    const received: string[] = []
    const stop = backend.watch({
      changed: ({ ref, phase }) => void received.push(`${ref.name} ${phase}`),
      gone: (ref) => void received.push(`${ref.name} gone`),
      resync: () => {},
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
    })
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await backend.create({ ...spec, ref: { namespace: 'default', name } })
    }
    await clock.settle()
    expect(received).toEqual(['b running', 'b running', 'd running', 'c running', 'f running'])
    await clock.advance(100)
    expect(received.slice(5)).toEqual(['e running'])
    stop()
    inner.server('a').exit(0)
    await clock.settle()
    expect(received).toHaveLength(6)
  })
})

describe('random faults', () => {
  it('are reproducible and have the given probability', () => {
    const draw = (seed: number) => {
      const plan = randomFaults<'x' | 'y'>({ seed, probability: 0.2, faults: ['x', 'y'] })
      return Array.from({ length: 5_000 }, () => plan(undefined))
    }
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    const injected = draw(1).filter((fault) => fault !== undefined)
    expect(injected.length).toBeGreaterThan(850)
    expect(injected.length).toBeLessThan(1_150)
    expect(new Set(injected)).toEqual(new Set(['x', 'y']))
  })
})

describe('a faulty store', () => {
  it('injects faults by collection and method, and passes on other calls', async () => {
    const calls: string[] = []
    const done: string[] = []
    const backing = recordingStore(done)
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

function recordingStore(done: string[]): Store {
  const record = <T>(name: string, result: T) => {
    done.push(name)
    return Promise.resolve(result)
  }
  const collection = {
    get: () => record('get', undefined),
    list: () => record('list', []),
    create: () => record('create', '1'),
    update: () => record('update', '2'),
    delete: () => record('delete', undefined),
  }
  return {
    shared: false,
    builds: collection,
    servers: collection,
    details: collection,
    close: () => record('close', undefined),
  }
}
