/** A worker thread that simulates one seed after the other, as it is told. Bundled, never imported. */
import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { simulate, type SimulationOptions } from '../../src/testing/simulation/simulate.js'

/** All that can be sent to another thread. */
export type Task = Omit<SimulationOptions, 'createFleet'>

try {
  // On Linux this concerns this thread alone: tests that wait for real processes go first.
  setPriority(10)
} catch {
  // Where that is not allowed, it is slower for the others, and nothing else.
}

// Most errors here are refusals that a caller gets, and their stacks cost more than all else about them.
Error.stackTraceLimit = 4

parentPort?.on('message', (task: Task) => {
  // What rejects here is an error of the thread, and its owner hears of it.
  void simulate(task).then((result) => parentPort?.postMessage(result))
})
