/** Entry point of a worker thread, which simulates one seed per message. This file is bundled, never imported. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { simulate, type SimulationOptions } from '../../src/testing/simulation/simulate.js'

/** The options that can be sent to another thread. */
export type Task = Omit<SimulationOptions, 'createFleet'>

try {
  // On Linux this lowers the priority of this thread only, so that tests with real processes take precedence.
  setPriority(10)
} catch {
  // If lowering the priority is not permitted, other tests merely run slower.
}

// Keep stack traces short: they are expensive, and refused allocations create many errors.
Error.stackTraceLimit = 4

parentPort?.on('message', (task: Task) => {
  // A rejection becomes an `error` event of the worker, which the pool handles.
  void simulate(task).then((result) => parentPort?.postMessage(result))
})
