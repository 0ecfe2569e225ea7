/** `npm run soak`: see docs/explanation/soak.md. */
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/contracts/errors.js'
import type { SoakSummary } from './soak.js'

const usage = `Usage: npm run soak -- [options]

Runs the bundled server with real game processes under a random workload, kills and restarts it, and checks that no session
or server is lost. Requires Linux. Exits with 1 if a check failed, with 130 if interrupted.

Options:
  --abuse                     Instead of that, runs many abuses at once against one server with live matches. Exits with 1 also if a
                              heartbeat took longer than 250 ms.
  --backend <process|docker>  Default: process. Abuses run on processes only.
  --minutes <n>               Duration of the workload, at most a day. Default: 5; with --abuse 10.
  --seed <n>                  Seed of the workload. Default: random.
  --json                      Print the summary as JSON.
  -h, --help                  Print this help.`

interface Options {
  readonly abuse: boolean
  readonly backend: string
  readonly minutes: number
  readonly seed: number
  readonly json: boolean
}

async function main(): Promise<number> {
  const { abuse, backend, minutes, seed, json } = readOptions()
  // Must be set before test/e2e/backend.ts is imported, which reads it.
  process.env['E2E_BACKEND'] = backend
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())
  if (abuse) return runAbuse(minutes, json, interrupted.signal)
  const { soak } = await import('./soak.js')
  console.error(`soak test on ${backend} for ${minutes} minutes with seed ${seed}`)
  const onProgress = (line: string) => console.error(line)
  const summary = await soak({ length: { minutes }, seed, signal: interrupted.signal, onProgress })
  console.log(json ? JSON.stringify(summary, undefined, 2) : asText(summary))
  return summary.violations.length > 0 ? 1 : summary.interrupted ? 130 : 0
}

async function runAbuse(minutes: number, json: boolean, signal: AbortSignal): Promise<number> {
  const { abuseSoak } = await import('./abuse/abuse-soak.js')
  const { abuseText } = await import('./abuse/report.js')
  console.error(`abuse for ${minutes} minutes`)
  const onProgress = (line: string) => console.error(line)
  const summary = await abuseSoak({ length: { minutes }, matches: 6, signal, onProgress })
  console.log(json ? JSON.stringify(summary, undefined, 2) : abuseText(summary))
  return summary.violations.length > 0 || summary.heartbeats.late > 0 ? 1 : summary.interrupted ? 130 : 0
}

function readOptions(): Options {
  try {
    const { values } = parseArgs({
      options: {
        abuse: { type: 'boolean' },
        backend: { type: 'string' },
        minutes: { type: 'string' },
        seed: { type: 'string' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    const { backend = 'process', abuse = false } = values
    if (abuse && backend !== 'process') throw new Error('--abuse runs on processes only')
    if (backend !== 'process' && backend !== 'docker') throw new Error('--backend must be process or docker')
    const minutes = Number(values.minutes ?? (abuse ? 10 : 5))
    const seed = Number(values.seed ?? Date.now() % 1_000_000)
    if (!(minutes > 0 && minutes <= 24 * 60)) throw new Error('--minutes must be greater than 0 and at most 1440')
    if (!Number.isSafeInteger(seed)) throw new Error('--seed must be an integer')
    return { abuse, backend, minutes, seed, json: values.json ?? false }
  } catch (error) {
    console.error(`soak: ${messageOf(error)}; see --help`)
    process.exit(2)
  }
}

function asText(summary: SoakSummary): string {
  const { seed, seconds, steps, hosts, counts, usage: used, errorsLogged, unexpectedCrashes, violations } = summary
  const lines = [
    `seed ${seed}: ${steps} steps in ${seconds} s, ${hosts} hosts${summary.interrupted ? ', interrupted' : ''}`,
    ...Object.entries(counts).map(([what, times]) => `  ${String(times).padStart(6)}  ${what}`),
    `  ${String(unexpectedCrashes).padStart(6)}  unexpected crashes`,
    ...Object.entries(errorsLogged).map(([what, times]) => `  ${String(times).padStart(6)}  errors logged: ${what}`),
  ]
  if (used) {
    const { lifeSeconds, rssMiB, fds } = used
    lines.push(
      `longest host run, ${lifeSeconds} s: memory ${rssMiB.early} MiB early, ${rssMiB.late} MiB late ` +
        `(${rssMiB.perMinute} MiB per minute); open files, without one per server: ${fds.early} early, ${fds.late} late`,
    )
  }
  for (const { at, what, history } of violations) {
    lines.push('', `VIOLATION at ${at}: ${what}`, ...history.map((line) => `  ${line}`))
  }
  lines.push('', verdict(summary))
  return lines.join('\n')
}

function verdict({ violations, interrupted, keptIn }: SoakSummary): string {
  if (violations.length > 0) return `Logs and data are kept in ${keptIn}.`
  return interrupted ? 'Interrupted; all checks passed so far.' : 'All checks passed.'
}

process.exit(await main())
