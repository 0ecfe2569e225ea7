/** Simulates many seeds on several threads. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { SimulationResult } from '../../src/testing/simulation/simulate.js'
import type { Task } from './worker.js'

export interface RunOptions {
  /** What `bundle` made. */
  readonly script: string
  readonly from: number
  readonly seeds: number
  readonly minutes?: number | undefined
  readonly historyLines?: number | undefined
  /** Default: one for each core. */
  readonly threads?: number
  /** Ends the run after so many seeds with a violation. Default: never. */
  readonly mostFailures?: number
  readonly onResult?: (result: SimulationResult) => void
}

/** A seed that takes longer than this for each of its minutes runs in circles within one step: nothing else is that slow. */
const mostMsAMinute = 10_000

/** Resolves with the results of all seeds that were run, in the order of the seeds. */
export async function run(options: RunOptions): Promise<readonly SimulationResult[]> {
  const { script, from, seeds, minutes, historyLines, mostFailures = Infinity, onResult } = options
  const threads = Math.min(options.threads ?? availableParallelism(), seeds)
  const results: SimulationResult[] = []
  let next = from
  let failures = 0
  const work = async () => {
    const thread = new Thread(script)
    try {
      while (next < from + seeds && failures < mostFailures) {
        const task = {
          seed: next++,
          ...(minutes !== undefined && { minutes }),
          ...(historyLines !== undefined && { historyLines }),
        }
        const result = await thread.simulate(task)
        if (result.violation !== undefined) failures++
        results.push(result)
        onResult?.(result)
      }
    } finally {
      await thread.end()
    }
  }
  await Promise.all(Array.from({ length: threads }, work))
  return results.toSorted((a, b) => a.seed - b.seed)
}

/** A worker; one that dies of a seed, or does not come to an end with it, is replaced for the next. */
class Thread {
  readonly #script: string
  #worker: Worker | undefined
  #over: ((violation: string) => void) | undefined

  constructor(script: string) {
    this.#script = script
  }

  async simulate(task: Task): Promise<SimulationResult> {
    const worker = (this.#worker ??= this.#start())
    const mostMs = (10 + (task.minutes ?? 10)) * mostMsAMinute
    const tooLong = setTimeout(() => {
      this.#replace(worker, `endless: not over after ${mostMs / 1_000} s`)
    }, mostMs)
    try {
      return await new Promise<SimulationResult>((resolve) => {
        this.#over = (violation) => resolve({ seed: task.seed, violation, ...nothing })
        worker.once('message', resolve)
        worker.postMessage(task)
      })
    } finally {
      clearTimeout(tooLong)
      worker.removeAllListeners('message')
      this.#over = undefined
    }
  }

  async end(): Promise<void> {
    await this.#worker?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { eval: true })
    worker.on('error', (error) => {
      this.#replace(worker, `unhandled: ${error instanceof Error ? error.stack : String(error)}`)
    })
    return worker
  }

  #replace(worker: Worker, violation: string): void {
    if (this.#worker === worker) this.#worker = undefined
    void worker.terminate()
    // Between two seeds there is nobody to tell but whoever waits for the whole run.
    if (!this.#over) throw new Error(violation)
    this.#over(violation)
  }
}

const nothing = { history: [], fingerprint: '', steps: 0, allocations: 0, refusals: 0, hostCrashes: 0, faults: {} }
