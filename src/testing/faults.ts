/**
 * Fault injection for store and backend calls: a call is refused, its reply is lost, late or never sent, or its effect is
 * late. Used by `faultyBackend` and `faultyStore`. All delays use the given clock.
 */
import type { Backend, BackendListener } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import type { Collection, Store } from '../contracts/store.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { seededRandom } from './virtual-clock.js'

export type CallFault =
  /** The call has no effect and rejects. */
  | { readonly kind: 'refuse'; readonly error?: Error }
  /** The call takes effect but rejects, as when the connection breaks before the reply. */
  | { readonly kind: 'lose-reply'; readonly error?: Error }
  /** The call takes effect; the reply is delayed. */
  | { readonly kind: 'delay-reply'; readonly ms: number }
  /** The call rejects now but takes effect later. */
  | { readonly kind: 'delay-effect'; readonly ms: number; readonly error?: Error }
  /** The call takes effect but never settles, unless the caller aborts it through its signal. */
  | { readonly kind: 'hang' }

/** A call into which a fault may be injected. */
export interface FaultyCall {
  /** The method name, such as `create` or `servers.update`. */
  readonly method: string
  /** The object of the call. Absent for `list`. */
  readonly ref?: Ref
}

/** Chooses the fault for a call or an event, or returns undefined for no fault. */
export type FaultPlan<C, F> = (subject: C) => F | undefined

export interface PlannedFault {
  /** The fault applies to the next call of this method. Default: any method. */
  readonly method?: string
  readonly fault: CallFault
}

/** Applies the faults in order, each to the next call that matches. */
export function scriptedFaults(script: readonly PlannedFault[]): FaultPlan<FaultyCall, CallFault> {
  let at = 0
  return ({ method }) => {
    const next = script[at]
    if (!next || (next.method !== undefined && next.method !== method)) return undefined
    at++
    return next.fault
  }
}

/** Injects a random fault into each call or event with the given probability. The same seed yields the same faults. */
export function randomFaults<F>(options: {
  readonly seed: number
  /** 0 to 1. */
  readonly probability: number
  readonly faults: readonly F[]
}): FaultPlan<unknown, F> {
  const random = seededRandom(options.seed)
  return () => {
    const happens = random() < options.probability
    const choice = options.faults[Math.floor(random() * options.faults.length)]
    return happens ? choice : undefined
  }
}

export interface FaultOptions {
  readonly calls?: FaultPlan<FaultyCall, CallFault>
  /** Required for faults with a delay. */
  readonly clock?: Clock
}

/** Runs `work` with the fault that the plan chooses for this call. */
async function withFaults<T>(
  options: FaultOptions,
  call: FaultyCall,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const fault = options.calls?.(call)
  if (!fault) return work()
  throwIfAborted(signal)
  switch (fault.kind) {
    case 'refuse':
      throw fault.error ?? injected(call, 'was refused')
    case 'lose-reply':
      await work()
      throw fault.error ?? injected(call, 'took effect, but its reply was lost')
    case 'delay-reply': {
      const result = await work()
      await new Promise<void>((resolve) => clockOf(options).after(fault.ms, resolve))
      return result
    }
    case 'delay-effect':
      // The caller has already received an error, so the late outcome is ignored.
      clockOf(options).after(fault.ms, () => void work().catch(() => {}))
      throw fault.error ?? injected(call, 'got no reply and will take effect later')
    case 'hang':
      await work()
      return endOf(signal)
  }
}

function injected({ method, ref }: FaultyCall, what: string): FleetError {
  return new FleetError('unavailable', `injected fault: ${method}${ref ? ` of ${keyOf(ref)}` : ''} ${what}`)
}

function clockOf({ clock }: { readonly clock?: Clock }): Clock {
  if (clock) return clock
  throw new FleetError('invalid', 'a fault that takes time needs the `clock` option: pass the clock of the fleet')
}

function endOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = () => reject(new FleetError('aborted', 'the call was aborted by its signal'))
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}

// Wraps a Backend to inject faults into its calls and events, for testing a fleet. The contract permits all of these faults:
// Calls may fail or hang, and events may be late, duplicated, reordered or lost.

export type EventFault =
  /** The event is never delivered. */
  | { readonly kind: 'drop' }
  /** The event is delivered twice. */
  | { readonly kind: 'duplicate' }
  /** The event is delivered after the next event. */
  | { readonly kind: 'reorder' }
  /** The event is delivered after a delay. */
  | { readonly kind: 'delay'; readonly ms: number }

export interface FaultyEvent {
  readonly type: 'changed' | 'gone'
  readonly ref: Ref
}

export interface BackendFaults extends FaultOptions {
  /** Faults for `changed` and `gone` events. `resync`, `maintenance` and heartbeats are passed through unchanged. */
  readonly events?: FaultPlan<FaultyEvent, EventFault>
}

/** Injects call faults into `create`, `destroy` and `list` only; other calls are passed through unchanged. */
export function faultyBackend(backend: Backend, faults: BackendFaults): Backend {
  return {
    name: backend.name,
    capabilities: backend.capabilities,
    defaultStore: backend.defaultStore,
    ...(backend.isolation && { isolation: backend.isolation }),
    create: (spec, options) =>
      withFaults(faults, { method: 'create', ref: spec.ref }, options?.signal, () => backend.create(spec, options)),
    destroy: (ref, uid, options) =>
      withFaults(faults, { method: 'destroy', ref }, options.signal, () => backend.destroy(ref, uid, options)),
    list: (options) => withFaults(faults, { method: 'list' }, options?.signal, () => backend.list(options)),
    watch: (listener) => {
      const faulty = faultyListener(listener, faults)
      const stop = backend.watch(faulty.listener)
      return () => {
        stop()
        faulty.stop()
      }
    },
    close: () => backend.close(),
    ...optionalMethods(backend),
  }
}

/** Passes through the optional methods that the backend implements. */
function optionalMethods(backend: Backend): Partial<Backend> {
  const { check, prepare, protect, unprotect, find, agentEndpoint, logs, writeStdin, exec, usage } = backend
  return {
    ...(check && { check: check.bind(backend) }),
    ...(prepare && { prepare: prepare.bind(backend) }),
    ...(protect && { protect: protect.bind(backend) }),
    ...(unprotect && { unprotect: unprotect.bind(backend) }),
    ...(find && { find: find.bind(backend) }),
    ...(agentEndpoint && { agentEndpoint: agentEndpoint.bind(backend) }),
    ...(logs && { logs: logs.bind(backend) }),
    ...(writeStdin && { writeStdin: writeStdin.bind(backend) }),
    ...(exec && { exec: exec.bind(backend) }),
    ...(usage && { usage: usage.bind(backend) }),
  }
}

function faultyListener(listener: BackendListener, faults: BackendFaults) {
  let stopped = false
  let held: (() => void)[] = []

  const deliver = (event: () => void) => {
    if (stopped) return
    const overtaken = held
    held = []
    event()
    for (const late of overtaken) late()
  }

  const inject = (event: FaultyEvent, send: () => void) => {
    const fault = faults.events?.(event)
    switch (fault?.kind) {
      case undefined:
        return deliver(send)
      case 'drop':
        return undefined
      case 'duplicate':
        deliver(send)
        return deliver(send)
      case 'reorder':
        held.push(send)
        return undefined
      case 'delay':
        clockOf(faults).after(fault.ms, () => deliver(send))
        return undefined
    }
  }

  return {
    stop: () => {
      stopped = true
    },
    listener: {
      changed: (instance) => inject({ type: 'changed', ref: instance.ref }, () => listener.changed(instance)),
      gone: (ref, uid) => inject({ type: 'gone', ref }, () => listener.gone(ref, uid)),
      resync: () => listener.resync(),
      maintenance: (nodes) => listener.maintenance?.(nodes),
      heartbeat: (sessionHostId, heartbeat) => listener.heartbeat(sessionHostId, heartbeat),
      parkHeartbeat: (sessionHostId, parked) => listener.parkHeartbeat?.(sessionHostId, parked),
    } satisfies BackendListener,
  }
}

// Wraps a Store to inject faults into its calls, for testing a fleet.

/** Fault plans see method names with the collection as prefix, such as `servers.update` or `builds.list`. */
export function faultyStore(store: Store, faults: FaultOptions): Store {
  return {
    builds: faultyCollection('builds', store.builds, faults),
    servers: faultyCollection('servers', store.servers, faults),
    shared: store.shared,
    ...(store.isNew !== undefined && { isNew: store.isNew }),
    ...(store.watch && { watch: store.watch.bind(store) }),
    ...(store.display && { display: store.display }),
    details: faultyCollection('details', store.details, faults),
    ...(store.demand && { demand: faultyCollection('demand', store.demand, faults) }),
    ...(store.backup && { backup: store.backup.bind(store) }),
    get damage() {
      return store.damage
    },
    ...(store.acceptDamage && { acceptDamage: store.acceptDamage.bind(store) }),
    ...(store.check && { check: store.check.bind(store) }),
    close: () => store.close(),
  }
}

function faultyCollection<T extends Ref>(name: string, inner: Collection<T>, faults: FaultOptions): Collection<T> {
  return {
    get: (ref, options) =>
      withFaults(faults, { method: `${name}.get`, ref }, options?.signal, () => inner.get(ref, options)),
    list: (options) => withFaults(faults, { method: `${name}.list` }, options?.signal, () => inner.list(options)),
    create: (record, options) =>
      withFaults(faults, { method: `${name}.create`, ref: record }, options?.signal, () =>
        inner.create(record, options),
      ),
    update: (record, revision, options) =>
      withFaults(faults, { method: `${name}.update`, ref: record }, options?.signal, () =>
        inner.update(record, revision, options),
      ),
    delete: (ref, revision, options) =>
      withFaults(faults, { method: `${name}.delete`, ref }, options?.signal, () =>
        inner.delete(ref, revision, options),
      ),
  }
}
