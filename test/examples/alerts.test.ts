/** The chart's alerts: Prometheus evaluates them, and they ask for metrics and labels that hosts have. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { table } from '../package/pages.js'
import { read, root } from '../package/sources.js'
import { describeWith } from './with-program.js'

const run = promisify(execFile)
const rules: readonly { readonly alert: string; readonly expr: string }[] = parse(
  read('examples/kubernetes/chart/files/alerts.yaml'),
).groups[0].rules
const cases = 'test/examples/alerts/alerts.test.yaml'

describe('the alerts of the chart', () => {
  it('ask only for metrics of the reference', () => {
    const known = new Set(table('docs/reference/metrics.md', 'metric').map(([name = '']) => name.replaceAll('`', '')))
    const asked = rules.flatMap(({ expr }) => expr.match(/\bgamekeeper_\w+/g) ?? [])
    expect(asked.length).toBeGreaterThan(rules.length)
    expect(asked.filter((name) => !known.has(name.replace(/_count$/, '')))).toEqual([])
  })

  it('are those of the reference', () => {
    const page = read('docs/reference/metrics.md')
    const inOneLine = (text: string) => text.replaceAll(/\s+/g, ' ').trim()
    expect(rules.filter(({ expr }) => !page.includes(inOneLine(expr)))).toEqual([])
  })

  it('each have a case in which they fire, and one in which they do not', () => {
    const tests: readonly { readonly alert_rule_test: readonly { alertname: string; exp_alerts: unknown[] }[] }[] =
      parse(read(cases)).tests
    const expected = tests.flatMap((each) => each.alert_rule_test)
    for (const { alert } of rules) {
      const outcomes = expected.filter(({ alertname }) => alertname === alert).map((each) => each.exp_alerts.length)
      expect(new Set(outcomes), alert).toEqual(new Set([0, 1]))
    }
  })
})

describeWith('promtool')('Prometheus', () => {
  it('fires each alert when it should, and none while all is well', { timeout: 300_000 }, async () => {
    const { stdout } = await run('promtool', ['test', 'rules', join(root, cases)])
    expect(stdout).toContain('SUCCESS')
  })
})
