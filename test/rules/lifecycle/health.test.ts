/** Health of a server from the reports of its game. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { afterReport, healthOf, noReports, reachesUnhealthyLimit } from '../../../src/rules/lifecycle/health.js'
import { frozen } from '../support.js'

type Report = 'Healthy' | 'Unhealthy' | undefined

const limit = 3
const after = (reports: readonly Report[]) =>
  reports.reduce((memory, report) => frozen(afterReport(memory, report, false)), noReports)

const good = 'Healthy'
const bad = 'Unhealthy'
const nothing = undefined

describe('a game', () => {
  it.each<[string, readonly Report[], 'Healthy' | 'Unhealthy', boolean]>([
    ['is Healthy after a heartbeat without health', [nothing], 'Healthy', false],
    ['is Healthy if it reports Healthy', [good], 'Healthy', false],
    ['is Healthy despite Unhealthy reports until its first Healthy', [bad, bad, bad, bad, bad], 'Healthy', false],
    ['is Unhealthy from the first report after a Healthy one', [good, bad], 'Unhealthy', false],
    ['is not unfit after two reports in a row', [good, bad, bad], 'Unhealthy', false],
    ['is unfit after three reports in a row', [good, bad, bad, bad], 'Unhealthy', true],
    ['is unfit after more than three reports in a row', [good, bad, bad, bad, bad], 'Unhealthy', true],
    ['recovers with one Healthy report', [good, bad, bad, good], 'Healthy', false],
    ['is not unfit if the reports are not consecutive', [good, bad, bad, good, bad, bad], 'Unhealthy', false],
    ['can become unfit after a recovery', [good, bad, good, bad, bad, bad], 'Unhealthy', true],
    ['is not judged by reports before its first Healthy', [bad, bad, good, bad], 'Unhealthy', false],
    ['keeps its health when a heartbeat has none', [good, bad, nothing, bad, nothing], 'Unhealthy', false],
    [
      'is unfit after three reports even with heartbeats without health in between',
      [good, bad, nothing, bad, bad],
      'Unhealthy',
      true,
    ],
  ])('%s', (_row, reports, health, unfit) => {
    expect(healthOf(after(reports))).toBe(health)
    expect(reachesUnhealthyLimit(after(reports), limit)).toBe(unfit)
  })
})

describe('afterReport', () => {
  it('returns the same object after a heartbeat without health', () => {
    const memory = after([good, bad])
    expect(afterReport(memory, nothing, false)).toBe(memory)
    expect(afterReport(noReports, bad, false)).toBe(noReports)
    // The fleet's own report of a game that it probes needs no proof.
    expect(afterReport(noReports, bad, true)).toEqual({ hasReportedHealthy: true, unhealthyInARow: 1 })
  })

  it('returns one shared object for all Healthy servers, so heartbeats allocate no memory', () => {
    expect(after([good, good])).toBe(after([bad, good]))
  })
})

const reports = fc.array(fc.constantFrom<Report[]>(good, bad, nothing), { maxLength: 30 })

describe('any sequence of reports', () => {
  test.prop([reports])('is judged by the Unhealthy reports since the last Healthy report', (said) => {
    const heard = said.filter((report) => report !== nothing)
    const lastGood = heard.lastIndexOf(good)
    const run = lastGood < 0 ? 0 : heard.length - lastGood - 1
    expect(healthOf(after(said))).toBe(run > 0 ? bad : good)
    expect(reachesUnhealthyLimit(after(said), limit)).toBe(run >= limit)
  })
})
