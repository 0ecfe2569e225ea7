/**
 * Wraps a Backend to inject faults into its calls and events, for testing a fleet. The contract permits all of these faults:
 * calls may fail or hang, and events may be late, duplicated, reordered or lost.
 */
import type { Backend, BackendListener } from '../contracts/backend.js'
import type { Ref } from '../rules/model/resources.js'
import { clockOf, type FaultPlan, type FaultOptions, withFaults } from './faults.js'

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
  const { check, prepare, protect, unprotect, find, agentEndpoint, logs, writeStdin } = backend
  return {
    ...(check && { check: check.bind(backend) }),
    ...(prepare && { prepare: prepare.bind(backend) }),
    ...(protect && { protect: protect.bind(backend) }),
    ...(unprotect && { unprotect: unprotect.bind(backend) }),
    ...(find && { find: find.bind(backend) }),
    ...(agentEndpoint && { agentEndpoint: agentEndpoint.bind(backend) }),
    ...(logs && { logs: logs.bind(backend) }),
    ...(writeStdin && { writeStdin: writeStdin.bind(backend) }),
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
      holdHeartbeat: (sessionHostId, hold) => listener.holdHeartbeat?.(sessionHostId, hold),
    } satisfies BackendListener,
  }
}
