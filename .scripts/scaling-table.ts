/**
 * Replays invented days for several scaling policies and writes the table into docs/guides/scaling.md. Takes some minutes:
 * `npm run scaling-table`.
 */
import { readFile, writeFile } from 'node:fs/promises'
import type { ScalingFunction } from '../src/index.js'
import {
  type DemandShape,
  fixedNumberFor,
  inventDemand,
  replayDemand,
  type ReplayOutcome,
  type ReplayPolicy,
} from '../src/testing/index.js'

const page = 'docs/guides/scaling.md'
const [begin, end] = ['<!-- scaling-table -->', '<!-- /scaling-table -->']
const max = 5_000
const sessions = 20_000
const day = { sessions, sessionSeconds: 600, startSeconds: 180 }

const forecast: ReplayPolicy = { standingBy: 0, max, scaling: { forecast: {}, buffer: { min: 10 } } }
const buffer: ReplayPolicy = { standingBy: 0, max, scaling: { buffer: { min: 10, percent: 50 } } }

/** The rule of Agones' FleetAutoscaler: every 30 s, as many servers in all as are allocated, and `size` more. */
function agones(size: number): ScalingFunction {
  let [syncedAt, replicas] = [-Infinity, 0]
  return ({ counts, now }) => {
    if (now.getTime() - syncedAt >= 30_000) [syncedAt, replicas] = [now.getTime(), counts.inUse + size]
    return Math.max(0, replicas - counts.inUse)
  }
}

async function rowsOf(shape: DemandShape): Promise<readonly string[]> {
  const demand = inventDemand({ shape, ...day })
  const options = { demand, day: demand.days.at(-1)?.day ?? '' }
  const predicted = await replayDemand({ ...options, policy: forecast })
  const fixed = await fixedNumberFor({ ...options, policy: { standingBy: 0, max } }, predicted.refused)
  if (!fixed) throw new Error('no fixed number suffices')
  const { standingBy, outcome } = fixed
  const at = { scaleDown: { delaySeconds: 0, perMinute: 100_000 }, function: 'agones' }
  const lagging = await replayDemand({
    ...options,
    policy: { standingBy: 0, max, scaling: at },
    scalingPolicies: { agones: agones(standingBy) },
  })
  const row = (name: string, one: ReplayOutcome) => {
    const less = (1 - one.serverHours / outcome.serverHours) * 100
    const refused = ((one.refused / one.callers) * 100).toFixed(2)
    const change = one === outcome ? '' : `${Math.abs(less).toFixed(0)} % ${less < 0 ? 'more' : 'fewer'}`
    return `| ${shape} | ${name} | ${refused} % | ${one.serverHours.toFixed(0)} | ${change} | ${one.peakServers} |`
  }
  return [
    row(`\`standingBy: ${standingBy}\`, the smallest that refuses as few`, outcome),
    row('`forecast: {}` and `buffer: { min: 10 }`', predicted),
    row('`buffer: { min: 10, percent: 50 }`', await replayDemand({ ...options, policy: buffer })),
    row(`Agones' buffer of ${standingBy}, counted every 30 s`, lagging),
  ]
}

const table = [
  '| day | policy | refused | server-hours | than fixed | at peak |',
  '|---|---|---|---|---|---|',
  ...(await rowsOf('evening-peak')),
  ...(await rowsOf('tournament')),
]
const text = await readFile(page, 'utf8')
const [before, rest = ''] = text.split(begin)
const [, after = ''] = rest.split(end)
await writeFile(page, `${before}${begin}\n\n${table.join('\n')}\n\n${end}${after}`)
console.info(table.join('\n'))
