/** Entry point of a worker thread that simulates one seed per message. Bundled, never imported. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { simulate, type SimulationOptions } from '../../src/testing/simulation/simulate.js'

/** The options that can be sent to another thread. */
export type Task = Omit<SimulationOptions, 'createFleet'>

try {
  // On Linux this lowers the priority of this thread only, so that tests with real processes run first.
  setPriority(10)
} catch {
  // Not permitted here: other tests run slower, nothing else changes.
}

// Most errors here are refused allocations, whose stack traces are expensive.
Error.stackTraceLimit = 4

parentPort?.on('message', (task: Task) => {
  // A rejection becomes an `error` event of the worker, which the pool handles.
  void simulate(task).then((result) => parentPort?.postMessage(result))
})
