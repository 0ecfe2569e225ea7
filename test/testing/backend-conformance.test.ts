/** The suite has teeth: a backend that breaks the contract in one way fails the case that is about it. */
import { type Backend, FleetError, systemClock } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import {
  backendConformance,
  type BackendConformanceCase,
  type BackendConformanceOptions,
  type ConformanceCase,
} from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'

/** The suite over memory servers that run, with something wrong about the backend. */
function suiteOver(breakIt: (backend: Backend) => Partial<Backend>): readonly ConformanceCase[] {
  return backendConformance({
    timeoutMs: 100,
    graceMs: 100,
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
      // The servers of what is wrong are still there: `tearDown` must find them.
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
    'lists only what runs',
    'an exited instance stays listed until it is destroyed',
    (good) => ({ list: async () => (await good.list()).filter(({ phase }) => phase !== 'exited') }),
  ],
  [
    'knows only success and failure',
    'an exit with another code is listed with that code',
    (good) => ({ list: async () => (await good.list()).map((one) => (one.exitCode ? { ...one, exitCode: 1 } : one)) }),
  ],
  [
    'starts a name twice',
    'the same ref and uid again is the same instance',
    (good) => {
      let count = 0
      return { create: (spec) => good.create({ ...spec, ref: { ...spec.ref, name: `${spec.ref.name}-${count++}` } }) }
    },
  ],
  [
    'takes over the name of a living instance',
    'another uid under the ref of a living instance is a conflict',
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
    'destroying another uid leaves the instance alone',
    (good) => ({
      async destroy(ref, _, options) {
        for (const one of await good.list()) if (one.ref.name === ref.name) await good.destroy(ref, one.uid, options)
      },
    }),
  ],
  [
    'fails to destroy what is absent',
    'destroying what does not exist is success',
    (good) => ({
      async destroy(ref, uid, options) {
        if (!(await good.list()).some((one) => one.uid === uid)) throw new FleetError('not-found', 'no such instance')
        await good.destroy(ref, uid, options)
      },
    }),
  ],
  [
    'kills at once',
    'a program that does not end when told is killed after its grace period, not before',
    (good) => ({ destroy: (ref, uid) => good.destroy(ref, uid, { graceMs: 0 }) }),
  ],
  [
    'never kills',
    'no grace kills at once',
    (good) => ({ destroy: (ref, uid) => good.destroy(ref, uid, { graceMs: 60_000 }) }),
  ],
  [
    'gives each instance the same port',
    'instances created at once share no public port',
    (good) => ({
      list: async () =>
        (await good.list()).map((one) => ({ ...one, ports: one.ports.map((port) => ({ ...port, public: 20_000 })) })),
    }),
  ],
  [
    'sorts its ports',
    'ports are listed in the order of portsToExpose',
    (good) => ({
      create: (spec) => good.create({ ...spec, portsToExpose: [...spec.portsToExpose].sort((a, b) => a - b) }),
    }),
  ],
  ['tells nobody', 'a listener is told of an exit, with its code', () => ({ watch: () => () => {} })],
  [
    'cannot stop telling',
    'a listener that stopped is told nothing more',
    (good) => ({
      watch(listener) {
        good.watch(listener)
        return () => {}
      },
    }),
  ],
  [
    'overlooks signals',
    'a call with an aborted signal rejects and does nothing',
    (good) => ({ create: (spec) => good.create(spec) }),
  ],
  [
    'ends its instances when it closes',
    'closing leaves instances running, and the next backend lists them as they were',
    (good) => ({
      async close() {
        for (const { ref, uid } of await good.list()) await good.destroy(ref, uid, { graceMs: 0 })
        await good.close()
      },
    }),
  ],
  [
    'knows no namespaces',
    'one name in two namespaces is two instances',
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

  it('leaves out what cannot apply, for a reason, and takes no name that is not a case', () => {
    const options = {
      template: () => ({}),
      open: () => Promise.reject(new Error('not opened')),
    }
    const all = backendConformance(options)
    const some = backendConformance({
      ...options,
      inapplicable: { 'one name in two namespaces is two instances': 'it has one namespace' },
    })
    expect(some.length).toBe(all.length - 1)
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
    // @ts-expect-error: nor does it compile
    const unknown: BackendConformanceOptions = { ...options, inapplicable: { 'no such case': 'because' } }
    expect(() => backendConformance(unknown)).toThrow(/names no case: no such case/)
    const silent = { ...options, inapplicable: { 'an instance without ports has none': '' } }
    expect(() => backendConformance(silent)).toThrow(/needs a reason/)
  })
})
