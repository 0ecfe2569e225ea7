/** Runs many seeds in parallel on worker threads. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { SimulationResult } from './simulate.js'
import type { Task } from './worker.js'

export interface RunOptions {
  /** The script that `bundle` returned. */
  readonly script: string
  readonly from: number
  readonly seeds: number
  readonly minutes?: number | undefined
  readonly historyLines?: number | undefined
  /** Whether the store has the journal of the Kubernetes store. Default: no. */
  readonly journal?: boolean | undefined
  /** Default: one per core. */
  readonly threads?: number
  /** Stop after this many seeds with a violation. Default: never. */
  readonly maxFailures?: number
  readonly onResult?: (result: SimulationResult) => void
}

/** Maximum real time per simulated minute. A seed that takes longer is considered to be in an endless loop. */
const maxMsPerMinute = 10_000

/** Resolves to the results of all seeds that were run, ordered by seed. */
export async function run(options: RunOptions): Promise<readonly SimulationResult[]> {
  const { script, from, seeds, minutes, historyLines, journal, maxFailures = Infinity, onResult } = options
  const threads = Math.min(options.threads ?? availableParallelism(), seeds)
  const results: SimulationResult[] = []
  let next = from
  let failures = 0
  const work = async () => {
    const thread = new Thread(script)
    try {
      while (next < from + seeds && failures < maxFailures) {
        const task = {
          seed: next++,
          ...(minutes !== undefined && { minutes }),
          ...(historyLines !== undefined && { historyLines }),
          ...(journal !== undefined && { journal }),
        }
        const result = await thread.simulate(task)
        if (result.violation !== undefined) failures++
        results.push(result)
        onResult?.(result)
      }
    } finally {
      await thread.stop()
    }
  }
  await Promise.all(Array.from({ length: threads }, work))
  return results.toSorted((a, b) => a.seed - b.seed)
}

/** Runs seeds on a worker thread. If a worker crashes or does not finish a seed in time, a new one runs the next seed. */
class Thread {
  readonly #script: string
  #worker: Worker | undefined
  #abort: ((violation: string) => void) | undefined

  constructor(script: string) {
    this.#script = script
  }

  async simulate(task: Task): Promise<SimulationResult> {
    const worker = (this.#worker ??= this.#start())
    const timeoutMs = (10 + (task.minutes ?? 10)) * maxMsPerMinute
    const timer = setTimeout(() => {
      this.#replace(worker, `endless loop: not finished after ${timeoutMs / 1_000} s`)
    }, timeoutMs)
    try {
      return await new Promise<SimulationResult>((resolve) => {
        this.#abort = (violation) => resolve({ seed: task.seed, violation, ...noResult })
        worker.once('message', resolve)
        worker.postMessage(task)
      })
    } finally {
      clearTimeout(timer)
      worker.removeAllListeners('message')
      this.#abort = undefined
    }
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { eval: true })
    worker.on('error', (error) => {
      this.#replace(worker, `unhandled error: ${error instanceof Error ? error.stack : String(error)}`)
    })
    return worker
  }

  #replace(worker: Worker, violation: string): void {
    if (this.#worker === worker) this.#worker = undefined
    void worker.terminate()
    // Between two seeds no result is pending that could be failed, so fail the whole run.
    if (!this.#abort) throw new Error(violation)
    this.#abort(violation)
  }
}

const noResult = { history: [], fingerprint: '', steps: 0, allocations: 0, refusals: 0, hostCrashes: 0, faults: {} }
