/** `npm run soak`: see docs/explanation/soak.md. Only this file ends the process. */
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/contracts/errors.js'
import type { SoakSummary } from './soak.js'

const usage = 'npm run soak -- [--backend process|docker] [--minutes <n>] [--seed <n>] [--json]'

interface Options {
  readonly backend: string
  readonly minutes: number
  readonly seed: number
  readonly json: boolean
}

async function main(): Promise<number> {
  const { backend, minutes, seed, json } = readOptions()
  // What the scenarios share with the soak asks for it as it is loaded.
  process.env['E2E_BACKEND'] = backend
  const { soak } = await import('./soak.js')
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())
  console.error(`soaking on ${backend} for ${minutes} minutes with seed ${seed}`)
  const onProgress = (line: string) => console.error(line)
  const summary = await soak({ length: { minutes }, seed, signal: interrupted.signal, onProgress })
  console.log(json ? JSON.stringify(summary, undefined, 2) : asText(summary))
  return summary.breaches.length > 0 ? 1 : summary.interrupted ? 130 : 0
}

function readOptions(): Options {
  try {
    const { values } = parseArgs({
      options: {
        backend: { type: 'string' },
        minutes: { type: 'string' },
        seed: { type: 'string' },
        json: { type: 'boolean' },
      },
    })
    const { backend = 'process' } = values
    if (backend !== 'process' && backend !== 'docker') throw new Error('--backend must be process or docker')
    const minutes = Number(values.minutes ?? 5)
    const seed = Number(values.seed ?? Date.now() % 1_000_000)
    if (!(minutes > 0 && minutes <= 24 * 60)) throw new Error('--minutes must be above 0 and at most a day')
    if (!Number.isSafeInteger(seed)) throw new Error('--seed must be an integer')
    return { backend, minutes, seed, json: values.json ?? false }
  } catch (error) {
    console.error(`${messageOf(error)}\nusage: ${usage}`)
    process.exit(2)
  }
}

function asText(summary: SoakSummary): string {
  const { seed, seconds, steps, hosts, counts, usage: used, errorsLogged, crashesNotCaused, breaches } = summary
  const lines = [
    `seed ${seed}: ${steps} steps in ${seconds} s, ${hosts} hosts${summary.interrupted ? ', interrupted' : ''}`,
    ...Object.entries(counts).map(([what, times]) => `  ${String(times).padStart(6)}  ${what}`),
    `  ${String(crashesNotCaused).padStart(6)}  crashes counted that the soak did not cause`,
    ...Object.entries(errorsLogged).map(([what, times]) => `  ${String(times).padStart(6)}  errors logged: ${what}`),
  ]
  if (used) {
    const { lifeSeconds, rssMiB, fds } = used
    lines.push(
      `longest life of a host, ${lifeSeconds} s: ${rssMiB.early} MiB early, ${rssMiB.late} MiB late ` +
        `(${rssMiB.perMinute} a minute); ${fds.early} files early, ${fds.late} late, besides one a game server`,
    )
  }
  for (const { at, what, history } of breaches) {
    lines.push('', `BREACH at ${at}: ${what}`, ...history.map((line) => `  ${line}`))
  }
  lines.push('', verdict(summary))
  return lines.join('\n')
}

function verdict({ breaches, interrupted, kept }: SoakSummary): string {
  if (breaches.length > 0) return `All is kept in ${kept}.`
  return interrupted ? 'Nothing was wrong so far.' : 'Nothing was lost, doubled, or left behind.'
}

process.exit(await main())
