/** Decisions, "Life of a server": the rows on a game that reports Unhealthy. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { afterReport, healthOf, isUnfit, noReports } from '../../../src/rules/lifecycle/health.js'
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
    ['that has just spoken, of something else, is Healthy', [nothing], 'Healthy', false],
    ['that says Healthy is Healthy', [good], 'Healthy', false],
    ['that never said Healthy is not believed to be Unhealthy', [bad, bad, bad, bad, bad], 'Healthy', false],
    ['is Unhealthy from the first report after a Healthy one', [good, bad], 'Unhealthy', false],
    ['stays after two reports in a row', [good, bad, bad], 'Unhealthy', false],
    ['is unfit after three reports in a row', [good, bad, bad, bad], 'Unhealthy', true],
    ['is unfit after more than three', [good, bad, bad, bad, bad], 'Unhealthy', true],
    ['recovers with one Healthy report', [good, bad, bad, good], 'Healthy', false],
    ['has to say it three times in a row', [good, bad, bad, good, bad, bad], 'Unhealthy', false],
    ['is unfit also when it recovered before', [good, bad, good, bad, bad, bad], 'Unhealthy', true],
    ['that said Unhealthy before its first Healthy starts afresh', [bad, bad, good, bad], 'Unhealthy', false],
    ['that says nothing of its health changes nothing', [good, bad, nothing, bad, nothing], 'Unhealthy', false],
    [
      'that says nothing between three reports is unfit all the same',
      [good, bad, nothing, bad, bad],
      'Unhealthy',
      true,
    ],
  ])('%s', (_row, reports, health, unfit) => {
    expect(healthOf(after(reports))).toBe(health)
    expect(isUnfit(after(reports), limit)).toBe(unfit)
  })
})

describe('the memory of reports', () => {
  it('is the same object when nothing was said', () => {
    const memory = after([good, bad])
    expect(afterReport(memory, nothing)).toBe(memory)
    expect(afterReport(noReports, bad)).toBe(noReports)
  })

  it('is one object for all that are well, so a thousand heartbeats make no garbage', () => {
    expect(after([good, good])).toBe(after([bad, good]))
  })
})

const reports = fc.array(fc.constantFrom<Report[]>(good, bad, nothing), { maxLength: 30 })

describe('whatever a game reports', () => {
  test.prop([reports])('it is judged by its last run of Unhealthy after a Healthy one', (said) => {
    const heard = said.filter((report) => report !== nothing)
    const lastGood = heard.lastIndexOf(good)
    const run = lastGood < 0 ? 0 : heard.length - lastGood - 1
    expect(healthOf(after(said))).toBe(run > 0 ? bad : good)
    expect(isUnfit(after(said), limit)).toBe(run >= limit)
  })
})
