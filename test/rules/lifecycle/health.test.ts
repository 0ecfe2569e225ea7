/** Health of a server whose game reports Healthy and Unhealthy. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { afterReport, healthOf, noReports, reachesUnhealthyLimit } from '../../../src/rules/lifecycle/health.js'
import { frozen } from '../support.js'

type Report = 'Healthy' | 'Unhealthy' | undefined

const limit = 3
const after = (reports: readonly Report[]) =>
  reports.reduce((memory, report) => frozen(afterReport(memory, report)), noReports)

const good = 'Healthy'
const bad = 'Unhealthy'
const nothing = undefined

describe('a game', () => {
  it.each<[string, readonly Report[], 'Healthy' | 'Unhealthy', boolean]>([
    ['that sent a heartbeat without health is Healthy', [nothing], 'Healthy', false],
    ['that reports Healthy is Healthy', [good], 'Healthy', false],
    ['that never reported Healthy is Healthy despite Unhealthy reports', [bad, bad, bad, bad, bad], 'Healthy', false],
    ['is Unhealthy from the first report after a Healthy one', [good, bad], 'Unhealthy', false],
    ['is not unfit after two reports in a row', [good, bad, bad], 'Unhealthy', false],
    ['is unfit after three reports in a row', [good, bad, bad, bad], 'Unhealthy', true],
    ['is unfit after more than three', [good, bad, bad, bad, bad], 'Unhealthy', true],
    ['recovers with one Healthy report', [good, bad, bad, good], 'Healthy', false],
    ['is only unfit after three consecutive reports', [good, bad, bad, good, bad, bad], 'Unhealthy', false],
    ['can become unfit after it recovered', [good, bad, good, bad, bad, bad], 'Unhealthy', true],
    ['is not judged by reports before its first Healthy', [bad, bad, good, bad], 'Unhealthy', false],
    ['keeps its health when a heartbeat has none', [good, bad, nothing, bad, nothing], 'Unhealthy', false],
    [
      'is unfit after three reports with heartbeats without health in between',
      [good, bad, nothing, bad, bad],
      'Unhealthy',
      true,
    ],
  ])('%s', (_row, reports, health, unfit) => {
    expect(healthOf(after(reports))).toBe(health)
    expect(reachesUnhealthyLimit(after(reports), limit)).toBe(unfit)
  })
})

describe('the memory of reports', () => {
  it('is the same object after a heartbeat without health', () => {
    const memory = after([good, bad])
    expect(afterReport(memory, nothing)).toBe(memory)
    expect(afterReport(noReports, bad)).toBe(noReports)
  })

  it('is one shared object for Healthy servers, so heartbeats allocate nothing', () => {
    expect(after([good, good])).toBe(after([bad, good]))
  })
})

const reports = fc.array(fc.constantFrom<Report[]>(good, bad, nothing), { maxLength: 30 })

describe('any sequence of reports', () => {
  test.prop([reports])('is judged by the Unhealthy reports since the last Healthy one', (said) => {
    const heard = said.filter((report) => report !== nothing)
    const lastGood = heard.lastIndexOf(good)
    const run = lastGood < 0 ? 0 : heard.length - lastGood - 1
    expect(healthOf(after(said))).toBe(run > 0 ? bad : good)
    expect(reachesUnhealthyLimit(after(said), limit)).toBe(run >= limit)
  })
})
