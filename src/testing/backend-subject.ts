/**
 * What a case of the backend conformance suite holds: the backend under test, the instances it asks for, and waiting
 * for conditions. Real engines take real time, so this waits in real time.
 */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import type { Backend, BackendListener, Instance, InstanceSpec } from '../contracts/backend.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { keyOf, type PodTemplateSpec, type Ref } from '../rules/model/resources.js'

/** Commands that a backend is given: small programs, whatever it runs. */
export type ConformanceProgram =
  /** Runs until it is told to end, and ends then. */
  | 'runs'
  /** Ends at once with the code. */
  | 'exits-0'
  | 'exits-3'
  /** Runs for one or two seconds, then ends with 5. */
  | 'exits-5-late'
  /** Runs on when it is told to end. */
  | 'ignores-terminate'
  | 'no-such-command'

export interface OpenedBackend {
  readonly backend: Backend
  /** Another backend over the same instances, after the first was closed. */
  reopen(): Promise<Backend>
  /** Called once after the case, when the backend is closed and its instances are destroyed. */
  cleanup(): Promise<void>
}

export interface SubjectOptions {
  /** A backend without instances. With `publicPorts`, it has just that many public ports to give. */
  open(need: { readonly publicPorts?: number }): Promise<OpenedBackend>
  template(program: ConformanceProgram): PodTemplateSpec
  /** Resolves when a running `ignores-terminate` has got so far that it ignores. Default: as soon as it runs. */
  programUp?(instance: Instance): Promise<void>
  /** What instances are told; nothing needs to listen there. Default `127.0.0.1:56001`. */
  readonly heartbeatEndpoint?: string
  /** Two that exist. Default `default` and `other`. */
  readonly namespaces?: readonly [string, string]
  /** The longest wait for anything. Default 10 s. */
  readonly timeoutMs?: number
  /** The grace period that the case of `ignores-terminate` sits out. Default 1 s. */
  readonly graceMs?: number
}

export interface Asked {
  readonly namespace?: string
  readonly name?: string
  readonly portsToExpose?: readonly number[]
}

/** All that a listener was told. */
export interface Told {
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

  /** A spec of a new instance; the names differ from case to case. */
  spec(kind: ConformanceProgram, asked: Asked = {}): InstanceSpec {
    count++
    const namespace = asked.namespace ?? this.namespaces[0]
    const name = asked.name ?? `conformance-${count.toString(36).padStart(5, '0')}`
    const uid = uidOf(count)
    return {
      ref: { namespace, name },
      uid,
      build: { namespace, name: 'conformance', uid: uidOf(0), buildID: 'conformance' },
      template: this.#options.template(kind),
      portsToExpose: asked.portsToExpose ?? [7777],
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

  /** The instance once it is in this phase. */
  inPhase(spec: InstanceSpec, phase: Instance['phase']): Promise<Instance> {
    return this.eventually(`${keyOf(spec.ref)} is listed as ${phase}`, async () => {
      const instance = await this.find(spec)
      return instance?.phase === phase ? instance : undefined
    })
  }

  async running(spec: InstanceSpec): Promise<Instance> {
    await this.backend.create(spec)
    return this.inPhase(spec, 'running')
  }

  programUp(instance: Instance): Promise<void> {
    const up = this.#options.programUp?.(instance) ?? Promise.resolve()
    return this.inTime(`the program of ${keyOf(instance.ref)} is up`, up)
  }

  /** Ends it at once. */
  end(spec: InstanceSpec): Promise<void> {
    return this.backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  }

  /** Waits until `look` finds something, and fails with `what` when it does not in time. */
  async eventually<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
    const deadline = performance.now() + this.timeoutMs
    for (;;) {
      const found = await look()
      if (found !== undefined) return found
      if (performance.now() > deadline) assert.fail(`not within ${this.timeoutMs} ms: ${what}`)
      await pause(pollIntervalMs)
    }
  }

  /** Settles as `work`, or fails when that takes longer than everything may. */
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

  /** A `resync` that a backend greets a new listener with does not count. */
  async watch(): Promise<Told & { readonly stop: () => void }> {
    const changed: Instance[] = []
    const gone: { readonly ref: Ref; readonly uid: string }[] = []
    const told = { changed, gone, resyncs: 0 }
    const listener: BackendListener = {
      changed: (instance) => void changed.push(instance),
      gone: (ref, uid) => void gone.push({ ref, uid }),
      resync: () => void told.resyncs++,
      heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1000 }),
    }
    const stop = this.backend.watch(listener)
    await this.backend.list()
    await pause(0)
    told.resyncs = 0
    return Object.assign(told, { stop })
  }

  /** Closes the backend and opens another over the same instances, as when the host restarts. */
  async reopen(): Promise<void> {
    await this.backend.close()
    this.backend = await this.#opened.reopen()
  }

  /** Leaves nothing behind. */
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
    assert.fail(`rejected with ${messageOf(error)} instead of a FleetError '${code}'`)
  }
  assert.fail(`resolved with ${JSON.stringify(outcome)} instead of rejecting with '${code}'`)
}

/** Looks like the UUIDs that a fleet gives. */
function uidOf(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}
