/** Measures how long the answers to the heartbeats of a server with a match take. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { median } from '../usage.js'

export interface HeartbeatReport {
  readonly count: number
  readonly medianMs: number
  readonly worstMs: number
  /** Number of heartbeats that were not answered within 250 ms. */
  readonly late: number
}

export const lateMs = 250
const sender = fileURLToPath(new URL('heartbeat-sender.mjs', import.meta.url))

export class HeartbeatProbe {
  readonly #sender: ChildProcess
  readonly #ended: Promise<unknown>
  readonly #answeredMs: number[] = []

  /** `agent`: its URL. `onLate` is called for each answer that took longer than 250 ms. */
  constructor(agent: string, sessionHostId: string, onLate: (ms: number) => void) {
    const url = `${agent}/v1/sessionHosts/${sessionHostId}`
    const child = spawn(process.execPath, [sender, url], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#sender = child
    this.#ended = once(child, 'close')
    createInterface({ input: child.stdout }).on('line', (line) => {
      const ms = Number(line)
      this.#answeredMs.push(ms)
      if (ms > lateMs) onLate(ms)
    })
  }

  async close(): Promise<HeartbeatReport> {
    this.#sender.stdin?.end()
    await this.#ended
    const all = this.#answeredMs
    return {
      count: all.length,
      medianMs: Math.round(median(all)),
      worstMs: Math.round(all.reduce((worst, ms) => Math.max(worst, ms), 0)),
      late: all.filter((ms) => ms > lateMs).length,
    }
  }
}
