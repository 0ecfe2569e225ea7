/**
 * Wraps a Backend so that its calls and events go wrong as a plan says: for tests of how a fleet bears it. It adds
 * nothing that the contract forbids: calls may fail or stay unanswered, events may be late, doubled or lost.
 */
import type { Backend, BackendListener } from '../contracts/backend.js'
import type { Ref } from '../rules/model/resources.js'
import { clockOf, type FaultPlan, type FaultSurroundings, withFaults } from './faults.js'

export type EventFault =
  /** Never delivered. */
  | { readonly kind: 'drop' }
  /** Delivered twice. */
  | { readonly kind: 'duplicate' }
  /** Delivered after the next event. */
  | { readonly kind: 'reorder' }
  /** Delivered this much later. */
  | { readonly kind: 'delay'; readonly ms: number }

export interface FaultyEvent {
  readonly type: 'changed' | 'gone'
  readonly ref: Ref
}

export interface BackendFaults extends FaultSurroundings {
  /** What befalls `changed` and `gone`. `resync` and heartbeats always pass. */
  readonly events?: FaultPlan<FaultyEvent, EventFault>
}

/** Calls are named `create`, `destroy` and `list`. Wrap what `memoryBackend` made and keep that for its servers. */
export function faultyBackend(backend: Backend, faults: BackendFaults): Backend {
  return {
    name: backend.name,
    capabilities: backend.capabilities,
    defaultStore: backend.defaultStore,
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
    ...optionalCalls(backend),
  }
}

/** What a backend may leave out passes as it is, and what it leaves out stays left out. */
function optionalCalls(backend: Backend): Partial<Backend> {
  const { check, prepare, protect, find, agentEndpoint, logs } = backend
  return {
    ...(check && { check: check.bind(backend) }),
    ...(prepare && { prepare: prepare.bind(backend) }),
    ...(protect && { protect: protect.bind(backend) }),
    ...(find && { find: find.bind(backend) }),
    ...(agentEndpoint && { agentEndpoint: agentEndpoint.bind(backend) }),
    ...(logs && { logs: logs.bind(backend) }),
  }
}

function faultyListener(listener: BackendListener, faults: BackendFaults) {
  let stopped = false
  let held: (() => void)[] = []

  const deliver = (tell: () => void) => {
    if (stopped) return
    const overtaken = held
    held = []
    tell()
    for (const late of overtaken) late()
  }

  const meet = (event: FaultyEvent, tell: () => void) => {
    const fault = faults.events?.(event)
    switch (fault?.kind) {
      case undefined:
        return deliver(tell)
      case 'drop':
        return undefined
      case 'duplicate':
        deliver(tell)
        return deliver(tell)
      case 'reorder':
        held.push(tell)
        return undefined
      case 'delay':
        clockOf(faults).after(fault.ms, () => deliver(tell))
        return undefined
    }
  }

  return {
    stop: () => {
      stopped = true
    },
    listener: {
      changed: (instance) => meet({ type: 'changed', ref: instance.ref }, () => listener.changed(instance)),
      gone: (ref, uid) => meet({ type: 'gone', ref }, () => listener.gone(ref, uid)),
      resync: () => listener.resync(),
      heartbeat: (sessionHostId, heartbeat) => listener.heartbeat(sessionHostId, heartbeat),
    } satisfies BackendListener,
  }
}
