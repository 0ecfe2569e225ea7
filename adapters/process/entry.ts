/** One instance as this host knows it: its record, its process, and what is being done to it. */
import type { Instance } from '../../src/contracts/backend.js'
import type { Ending } from './ending.js'
import type { GameProcess } from './game-process.js'
import type { InstanceRecord } from './record.js'

/** Changes in place: the port pool and the pollers read it while it is being made. */
export interface Entry {
  record: InstanceRecord
  /** Numbers that nobody else may get, from the first moment on. */
  readonly heldPorts: number[]
  process?: GameProcess
  /** Until its creation is done. */
  starting?: Promise<Instance>
  ending?: { readonly ending: Ending; readonly done: Promise<void> }
  /** The last write of its record, after all earlier ones. */
  saving: Promise<void>
}

export function newEntry(record: InstanceRecord, process?: GameProcess): Entry {
  return {
    record,
    heldPorts: record.ports.map((port) => port.public),
    saving: Promise.resolve(),
    ...(process ? { process } : {}),
  }
}

/** What the fleet gets to see of it. */
export function instanceOf(entry: Entry): Instance {
  const { ref, uid, address, node, ports, exit } = entry.record
  const known = { ref, uid, address, node, ports }
  if (exit) {
    const { code, reason } = exit
    return { ...known, phase: 'exited', reason, ...(code === undefined ? {} : { exitCode: code }) }
  }
  return entry.process ? { ...known, phase: 'running' } : { ...known, phase: 'pending', reason: 'it is being started' }
}

/** True while its game runs, or may. */
export function isRunning(entry: Entry): boolean {
  return entry.process !== undefined && entry.record.exit === undefined
}
