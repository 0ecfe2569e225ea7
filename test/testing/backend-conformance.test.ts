/** A backend that breaks the contract in one way fails the case that tests it. */
import { type Backend, FleetError, systemClock } from 'gamekeeper'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import {
  backendConformance,
  type BackendConformanceCase,
  type BackendConformanceOptions,
  type ConformanceCase,
} from 'gamekeeper/testing'
import { describe, expect, it, vi } from 'vitest'

/** The suite over a memory backend with one defect. */
function suiteOver(breakIt: (backend: Backend) => Partial<Backend>): readonly ConformanceCase[] {
  let opened: MemoryBackend | undefined
  return backendConformance({
    timeoutMs: 2_000,
    graceMs: 100,
    programSignalled: ({ ref }) => vi.waitFor(() => expect(opened?.server(ref).isSignalled).toBe(true), 60_000),
    template: (program) => ({ program }),
    async open({ publicPorts = 50 }) {
      const good = memoryBackend({
        clock: systemClock,
        portRange: { first: 20_000, last: 20_000 + publicPorts - 1 },
        script: ({ template }) => ({
          ...(template['program'] === 'exits-0' && { exitsWith: 0 }),
          ...(template['program'] === 'exits-3' && { exitsWith: 3 }),
          ...(template['program'] === 'ignores-terminate' && { ignoresTerminate: true }),
        }),
      })
      opened = good
      // The instances that the defect leaves behind must still be listed for `tearDown`.
      const backend = { ...good, ...breakIt(good) }
      return { backend, reopen: async () => backend, cleanup: async () => {} }
    },
  })
}

async function run(cases: readonly ConformanceCase[], name: BackendConformanceCase): Promise<void> {
  const found = cases.find((one) => one.name === name)
  expect(found, name).toBeDefined()
  await found?.run()
}

const broken: readonly [
  what: string,
  fails: BackendConformanceCase,
  breakIt: (backend: Backend) => Partial<Backend>,
][] = [
  [
    'lists running instances only',
    'list: shows an exited instance until it is destroyed',
    (good) => ({ list: async () => (await good.list()).filter(({ phase }) => phase !== 'exited') }),
  ],
  [
    'sends the termination signal only at the end of the grace period',
    'destroy: sends the termination signal at once, and kills only after the whole grace period',
    (good) => ({
      async destroy(ref, uid, options) {
        await new Promise<void>((resolve) => systemClock.after(options.graceMs, resolve))
        await good.destroy(ref, uid, options)
      },
    }),
  ],
  [
    'drops terminations when it closes',
    'close: sends the termination signal to every instance that destroy was called for',
    (good) => {
      let isClosed = false
      return {
        async destroy(ref, uid, options) {
          await new Promise<void>((resolve) => systemClock.after(1, resolve))
          if (!isClosed || options.graceMs === 0) await good.destroy(ref, uid, options)
        },
        async close() {
          isClosed = true
        },
      }
    },
  ],
  [
    'reports exit code 1 for every failure',
    'list: shows other exit codes',
    (good) => ({ list: async () => (await good.list()).map((one) => (one.exitCode ? { ...one, exitCode: 1 } : one)) }),
  ],
  [
    'creates an instance twice',
    'create: the same ref and uid returns the existing instance',
    (good) => {
      let count = 0
      return { create: (spec) => good.create({ ...spec, ref: { ...spec.ref, name: `${spec.ref.name}-${count++}` } }) }
    },
  ],
  [
    'replaces an existing instance',
    'create: rejects another uid for the ref of an existing instance with conflict',
    (good) => ({
      async create(spec) {
        const taken = (await good.list()).find(({ ref }) => ref.name === spec.ref.name)
        if (taken) await good.destroy(taken.ref, taken.uid, { graceMs: 0 })
        return good.create(spec)
      },
    }),
  ],
  [
    'ignores the uid on destroy',
    'destroy: does not affect an instance with another uid',
    (good) => ({
      async destroy(ref, _, options) {
        for (const one of await good.list()) if (one.ref.name === ref.name) await good.destroy(ref, one.uid, options)
      },
    }),
  ],
  [
    'rejects the destroy of a missing instance',
    'destroy: succeeds if the instance does not exist',
    (good) => ({
      async destroy(ref, uid, options) {
        if (!(await good.list()).some((one) => one.uid === uid)) throw new FleetError('not-found', 'no such instance')
        await good.destroy(ref, uid, options)
      },
    }),
  ],
  [
    'kills at once',
    'destroy: kills a program that ignores termination after the grace period, not before',
    (good) => ({ destroy: (ref, uid) => good.destroy(ref, uid, { graceMs: 0 }) }),
  ],
  [
    'never kills',
    'destroy: kills at once without a grace period',
    (good) => ({ destroy: (ref, uid) => good.destroy(ref, uid, { graceMs: 60_000 }) }),
  ],
  [
    'assigns the same port to every instance',
    'ports: concurrent creates share no public port',
    (good) => ({
      list: async () =>
        (await good.list()).map((one) => ({ ...one, ports: one.ports.map((port) => ({ ...port, public: 20_000 })) })),
    }),
  ],
  [
    'sorts its ports',
    'ports: listed in the order of portsToExpose',
    (good) => ({
      create: (spec) => good.create({ ...spec, portsToExpose: [...spec.portsToExpose].sort((a, b) => a - b) }),
    }),
  ],
  ['reports no events', 'watch: reports an exit with its code', () => ({ watch: () => () => {} })],
  [
    'reports events to a stopped listener',
    'watch: reports nothing to a stopped listener',
    (good) => ({
      watch(listener) {
        good.watch(listener)
        return () => {}
      },
    }),
  ],
  [
    'ignores signals',
    'every call with an aborted signal rejects with aborted and has no effect',
    (good) => ({ create: (spec) => good.create(spec) }),
  ],
  [
    'destroys its instances on close',
    'restart: instances keep running after close, and the next backend lists them unchanged',
    (good) => ({
      async close() {
        for (const { ref, uid } of await good.list()) await good.destroy(ref, uid, { graceMs: 0 })
        await good.close()
      },
    }),
  ],
  [
    'ignores namespaces',
    'the same name in two namespaces is two instances',
    (good) => ({ create: (spec) => good.create({ ...spec, ref: { ...spec.ref, namespace: 'default' } }) }),
  ],
]

describe('the backend conformance suite', () => {
  it.each(broken)('catches a backend that %s', async (_, name, breakIt) => {
    await run(
      suiteOver(() => ({})),
      name,
    )
    await expect(run(suiteOver(breakIt), name)).rejects.toThrow()
  })

  it('leaves out inapplicable cases, and rejects an unknown case or an empty reason', () => {
    const options = {
      programSignalled: () => Promise.resolve(),
      template: () => ({}),
      open: () => Promise.reject(new Error('not opened')),
    }
    const all = backendConformance(options)
    const some = backendConformance({
      ...options,
      inapplicable: { 'the same name in two namespaces is two instances': 'it has only one namespace' },
    })
    expect(some.length).toBe(all.length - 1)
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
    // @ts-expect-error: does not compile either
    const unknown: BackendConformanceOptions = { ...options, inapplicable: { 'no such case': 'because' } }
    expect(() => backendConformance(unknown)).toThrow(/unknown case: no such case/)
    const silent = { ...options, inapplicable: { 'ports: an instance without portsToExpose has none': '' } }
    expect(() => backendConformance(silent)).toThrow(/needs a reason/)
  })
})
