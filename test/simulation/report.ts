/** Output of `npm run simulate`: a progress line and a summary. */
import { createHash } from 'node:crypto'
import type { SimulationResult } from './simulate.js'

export interface Progress {
  result(result: SimulationResult): void
  end(): void
}

const intervalMs = 10_000

/** On a terminal, rewrites a single line; otherwise, prints a line every 10 s. */
export function progress(seeds: number, out: NodeJS.WriteStream = process.stderr): Progress {
  const startedAt = performance.now()
  let printedAt = startedAt
  let done = 0
  let steps = 0
  let failed = 0
  return {
    result(result) {
      done++
      steps += result.steps
      if (result.violation !== undefined) failed++
      const now = performance.now()
      if (!out.isTTY && now - printedAt < intervalMs) return
      printedAt = now
      const seconds = (now - startedAt) / 1000
      const left = Math.ceil((seconds / done) * (seeds - done))
      const line = `${done} of ${seeds} seeds, ${failed} failed, ${count(steps)} steps, ${left} s left`
      out.write(out.isTTY ? `\r\u001b[K${line}` : `${line}\n`)
    },
    end() {
      if (out.isTTY) out.write('\r\u001b[K')
    },
  }
}

export function summary(results: readonly SimulationResult[]): string {
  const total = (of: (result: SimulationResult) => number) => results.reduce((sum, result) => sum + of(result), 0)
  const faults = new Map<string, number>()
  for (const result of results) {
    for (const [kind, times] of Object.entries(result.faults)) faults.set(kind, (faults.get(kind) ?? 0) + times)
  }
  const failed = results.filter((result) => result.violation !== undefined).length
  const lines = [...faults]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([kind, times]) => `  ${kind.padEnd(36)} ${count(times)}`)
  return [
    `${count(results.length)} seeds, ${failed} failed: ${count(total((one) => one.steps))} steps, ` +
      `${count(total((one) => one.allocations))} allocations, ${count(total((one) => one.refusals))} refusals, ` +
      `${count(total((one) => one.hostCrashes))} host crashes. Faults by kind:`,
    ...lines,
    `fingerprint: ${fingerprintOf(results)}`,
  ].join('\n')
}

function count(number: number): string {
  return number.toLocaleString('en')
}

/** Returns one digest for all seeds. A code change that does not alter behaviour does not alter the digest. */
function fingerprintOf(results: readonly SimulationResult[]): string {
  const hash = createHash('sha256')
  for (const { seed, fingerprint } of results) hash.update(`${seed} ${fingerprint}\n`)
  return hash.digest('hex').slice(0, 16)
}
