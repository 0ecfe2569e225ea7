/** Entry point of a worker thread, which simulates one seed per message. This file is bundled, never imported. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { type SimulationOptions, simulate } from './simulate.js'
import { kubernetesJournal } from './journal.js'

/** The options that can be sent to another thread. */
export interface Task extends Omit<SimulationOptions, 'createFleet'> {
  /** Whether the store has the journal of the Kubernetes store. */
  readonly journal?: boolean
}

try {
  // On Linux this lowers the priority of this thread only, so that tests with real processes take precedence.
  setPriority(10)
} catch {
  // If lowering the priority is not permitted, other tests merely run slower.
}

// Keep stack traces short: they are expensive, and refused allocations create many errors.
Error.stackTraceLimit = 4

parentPort?.on('message', ({ journal, ...task }: Task) => {
  // A rejection becomes an `error` event of the worker, which the pool handles.
  void simulate(task, journal ? kubernetesJournal : undefined).then((result) => parentPort?.postMessage(result))
})
