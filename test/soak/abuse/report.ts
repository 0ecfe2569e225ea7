/** The summary of `npm run soak -- --abuse` as text. Pure. */
import { type AbuseSummary, maxRssMiB } from './abuse-soak.js'
import { lateMs } from './heartbeat-probe.js'

export function abuseText(summary: AbuseSummary): string {
  const { seconds, rounds, matches, checks, heartbeats, mostRssMiB, violations, keptIn, interrupted } = summary
  return [
    `${matches} live matches, checked ${checks} times in ${seconds} s${interrupted ? ', interrupted' : ''}`,
    ...Object.entries(rounds).map(([name, times]) => `  ${String(times).padStart(6)}  ${name}`),
    `heartbeats: ${heartbeats.count}, answered in ${heartbeats.medianMs} ms (median) and ${heartbeats.worstMs} ms (worst), ` +
      `${heartbeats.late} later than ${lateMs} ms`,
    `memory of the host: at most ${mostRssMiB} MiB, the bound is ${maxRssMiB} MiB`,
    ...violations.map((what) => `VIOLATION: ${what}`),
    violations.length > 0
      ? `Logs and data are kept in ${keptIn}.`
      : 'No match ended, and no session was lost or doubled.',
  ].join('\n')
}
