/**
 * The test harness for one backend conformance case: opens the backend under test, builds instance specs and waits for
 * conditions. Waits in real time, since real engines do not run on a virtual clock.
 */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import type { Backend, BackendListener, Instance, InstanceSpec } from '../contracts/backend.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { keyOf, type PodTemplateSpec, type Ref } from '../rules/model/resources.js'

/** The small programs that the suite runs inside instances. */
export type ConformanceProgram =
  /** Runs until it is terminated. */
  | 'runs'
  /** Exits immediately with this code. */
  | 'exits-0'
  | 'exits-3'
  /** Runs for one to two seconds, then exits with code 5. */
  | 'exits-5-late'
  /** Records the termination signal for `programSignalled`, but does not exit, so it has to be killed. */
  | 'ignores-terminate'
  | 'no-such-command'
  /** Prints each line that arrives on its standard input. Its template has `stdin: true`. */
  | 'prints-stdin'

export interface OpenedBackend {
  readonly backend: Backend
  /** Opens a new backend over the same instances. Called after the first backend was closed. */
  reopen(): Promise<Backend>
  /** Called once at the end of the case, after all instances were destroyed and the backend was closed. */
  cleanup(): Promise<void>
}

export interface SubjectOptions {
  /** Opens a backend that has no instances and, if `publicPorts` is set, exactly that many public ports. */
  open(need: { readonly publicPorts?: number }): Promise<OpenedBackend>
  template(program: ConformanceProgram): PodTemplateSpec
  /** Resolves when a running `ignores-terminate` has installed its signal handler. Default: resolves immediately. */
  programUp?(instance: Instance): Promise<void>
  /** Resolves once a running `ignores-terminate` has received its termination signal. */
  programSignalled(instance: Pick<Instance, 'ref' | 'uid'>): Promise<void>
  /** Passed to instances; nothing needs to listen there. Default `127.0.0.1:56001`. */
  readonly heartbeatEndpoint?: string
  /** Two existing namespaces. Default `default` and `other`. */
  readonly namespaces?: readonly [string, string]
  /** Maximum wait for a condition. Default 10 s. */
  readonly timeoutMs?: number
  /** The grace period for `ignores-terminate`. Default 1 s. */
  readonly graceMs?: number
}

interface SpecOverrides {
  readonly namespace?: string
  readonly name?: string
  readonly portsToExpose?: readonly number[]
}

/** The events that a listener has received. */
export interface Received {
  readonly changed: readonly Instance[]
  readonly gone: readonly { readonly ref: Ref; readonly uid: string }[]
  readonly resyncs: number
}

const pollIntervalMs = 20
let count = 0

export class Subject {
  readonly #options: SubjectOptions
  readonly #opened: OpenedBackend
  readonly timeoutMs: number
  readonly graceMs: number
  readonly namespaces: readonly [string, string]
  backend: Backend

  constructor(options: SubjectOptions, opened: OpenedBackend) {
    this.#options = options
    this.#opened = opened
    this.timeoutMs = options.timeoutMs ?? 10_000
    this.graceMs = options.graceMs ?? 1_000
    this.namespaces = options.namespaces ?? ['default', 'other']
    this.backend = opened.backend
  }

  /** Returns a spec for a new instance with a unique name. */
  spec(kind: ConformanceProgram, overrides: SpecOverrides = {}): InstanceSpec {
    count++
    const namespace = overrides.namespace ?? this.namespaces[0]
    const name = overrides.name ?? `conformance-${count.toString(36).padStart(5, '0')}`
    const uid = uidOf(count)
    return {
      ref: { namespace, name },
      uid,
      build: { namespace, name: 'conformance', uid: uidOf(0), buildID: 'conformance' },
      template: this.#options.template(kind),
      portsToExpose: overrides.portsToExpose ?? [7777],
      sdk: {
        heartbeatEndpoint: this.#options.heartbeatEndpoint ?? '127.0.0.1:56001',
        sessionHostId: `${name}.${uid}`,
        buildMetadata: {},
      },
    }
  }

  async find(spec: InstanceSpec): Promise<Instance | undefined> {
    const found = (await this.backend.list()).filter((instance) => instance.uid === spec.uid)
    assert.ok(found.length <= 1, `list shows ${keyOf(spec.ref)} ${found.length} times`)
    return found[0]
  }

  /** Waits until the instance is in this phase. */
  inPhase(spec: InstanceSpec, phase: Instance['phase']): Promise<Instance> {
    let last: Instance | undefined
    const what = () =>
      `${keyOf(spec.ref)} is listed as ${phase}; the last list has ${last ? JSON.stringify(last) : 'it not'}`
    return this.eventually(what, async () => {
      last = await this.find(spec)
      return last?.phase === phase ? last : undefined
    })
  }

  async running(spec: InstanceSpec): Promise<Instance> {
    await this.backend.create(spec)
    return this.inPhase(spec, 'running')
  }

  programUp(instance: Instance): Promise<void> {
    const up = this.#options.programUp?.(instance) ?? Promise.resolve()
    return this.inTime(`the program of ${keyOf(instance.ref)} is ready`, up)
  }

  programSignalled(spec: InstanceSpec): Promise<void> {
    const signalled = this.#options.programSignalled(spec)
    return this.inTime(`the program of ${keyOf(spec.ref)} receives its termination signal`, signalled)
  }

  /** Starts an `ignores-terminate` and waits until it has installed its signal handler. */
  async ignoringTerminate(): Promise<InstanceSpec> {
    const spec = this.spec('ignores-terminate')
    await this.programUp(await this.running(spec))
    return spec
  }

  /** Long enough to observe a signal before it is over. */
  get longGraceMs(): number {
    return 15 * this.graceMs
  }

  /** Begins to destroy the instance with a long grace period. Resolves with the error if the call fails. */
  destroyWithLongGrace(spec: InstanceSpec): Promise<unknown> {
    const { longGraceMs: graceMs } = this
    return this.backend.destroy(spec.ref, spec.uid, { graceMs }).catch((error: unknown) => error)
  }

  /** Destroys the instance without a grace period. */
  destroyNow(spec: InstanceSpec): Promise<void> {
    return this.backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  }

  /** Polls until `find` returns a value; fails with `what` after the timeout. */
  async eventually<T>(what: string | (() => string), find: () => T | undefined | Promise<T | undefined>): Promise<T> {
    const deadline = performance.now() + this.timeoutMs
    for (;;) {
      const found = await find()
      if (found !== undefined) return found
      if (performance.now() > deadline)
        assert.fail(`not within ${this.timeoutMs} ms: ${typeof what === 'string' ? what : what()}`)
      await pause(pollIntervalMs)
    }
  }

  /** Settles like `work`; fails with `what` after the timeout. */
  async inTime<T>(what: string, work: Promise<T>): Promise<T> {
    const limit = new AbortController()
    const late = pause(this.timeoutMs, undefined, { signal: limit.signal }).then(() =>
      assert.fail(`not within ${this.timeoutMs} ms: ${what}`),
    )
    try {
      return await Promise.race([work, late])
    } finally {
      limit.abort()
    }
  }

  /** Adds a listener and records its events. Ignores an initial `resync`. */
  async watch(): Promise<Received & { readonly stop: () => void }> {
    const changed: Instance[] = []
    const gone: { readonly ref: Ref; readonly uid: string }[] = []
    const received = { changed, gone, resyncs: 0 }
    const listener: BackendListener = {
      changed: (instance) => void changed.push(instance),
      gone: (ref, uid) => void gone.push({ ref, uid }),
      resync: () => void received.resyncs++,
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1000 }),
    }
    const stop = this.backend.watch(listener)
    await this.backend.list()
    await pause(0)
    received.resyncs = 0
    return Object.assign(received, { stop })
  }

  /** Simulates a host restart: closes the backend and opens a new one over the same instances. */
  async reopen(): Promise<void> {
    await this.backend.close()
    this.backend = await this.#opened.reopen()
  }

  /** Destroys all instances and closes the backend. */
  async tearDown(): Promise<void> {
    const instances = await this.backend.list()
    await Promise.all(instances.map(({ ref, uid }) => this.backend.destroy(ref, uid, { graceMs: 0 })))
    await this.backend.close()
    await this.#opened.cleanup()
  }
}

export async function rejectsWith(code: FleetError['code'], work: Promise<unknown>): Promise<void> {
  let outcome: unknown
  try {
    outcome = { resolved: await work }
  } catch (error) {
    if (FleetError.is(error, code)) return
    assert.fail(`expected a FleetError '${code}', but it rejected with ${messageOf(error)}`)
  }
  assert.fail(`expected a FleetError '${code}', but it resolved with ${JSON.stringify(outcome)}`)
}

/** Returns a uid in the same format as those that a fleet generates. */
function uidOf(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}
