/** Compares docs/reference/metrics.md and the dashboard with the metrics. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { metricDefinitions } from '../../src/metrics/index.js'

const docs = (name: string) => readFile(join(import.meta.dirname, '../../docs/reference', name), 'utf8')

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource?: { readonly type: string; readonly uid: string }
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly { readonly expr: string; readonly refId: string; readonly legendFormat?: string }[]
}

interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly schemaVersion: number
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly query: unknown }[]
  }
  readonly panels: readonly Panel[]
}

describe('docs/reference/metrics.md', () => {
  it('lists every metric with its type, labels, and meaning', async () => {
    const rows = (await docs('metrics.md')).matchAll(/^\| `(gamekeeper_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$/gm)
    const listed = [...rows].map(([, name, type, labels = '', help]) => [
      name,
      { type, labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label), help },
    ])
    const known = Object.entries(metricDefinitions).map(([name, { type, labels, help }]) => [
      name,
      { type, labels, help },
    ])
    expect(listed).toEqual(known)
  })
})

describe('the dashboard', async () => {
  const dashboard: Dashboard = JSON.parse(await docs('grafana-dashboard.json'))
  const panels = dashboard.panels.filter(({ type }) => type !== 'row')
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

  it('has the schema version, ID, title, and panels that Grafana needs', () => {
    expect(dashboard).toMatchObject({ uid: 'gamekeeper', title: expect.any(String), schemaVersion: 39 })
    expect(panels.length).toBeGreaterThan(8)
    const ids = dashboard.panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { title, type, datasource, targets = [] } of panels) {
      expect(title).toMatch(/\S/)
      expect(['timeseries', 'stat', 'heatmap']).toContain(type)
      expect(datasource).toEqual({ type: 'prometheus', uid: '${datasource}' })
      expect(targets.length).toBeGreaterThan(0)
      const refs = targets.map(({ refId }) => refId)
      expect(new Set(refs).size).toBe(refs.length)
    }
  })

  it('has no overlapping panels', () => {
    for (const { gridPos: a, id } of dashboard.panels) {
      expect(a.x + a.w).toBeLessThanOrEqual(24)
      for (const { gridPos: b, id: other } of dashboard.panels) {
        const over = a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
        expect(over && id !== other).toBe(false)
      }
    }
  })

  it('uses only existing metrics and labels, and every metric', () => {
    const asked = new Set<string>()
    for (const expr of expressions) {
      for (const [, found = '', , selector = ''] of expr.matchAll(/(gamekeeper_\w+)({([^}]*)})?/g)) {
        const name = found.replace(/_(bucket|sum|count)$/, '')
        const definition = Object.entries(metricDefinitions).find(([one]) => one === name)?.[1]
        expect(definition, found).toBeDefined()
        if (name !== found) expect(definition?.type).toBe('histogram')
        asked.add(name)
        // Prometheus names the release in it.
        const labels = ['job', ...(definition?.labels ?? [])]
        for (const [, label] of selector.matchAll(/(\w+)\s*(?:=~?|!~?=?)/g)) expect(labels).toContain(label)
        expect(selector).toContain('job=~"$job"')
      }
      for (const [, by = ''] of expr.matchAll(/ by \(([^)]*)\)/g)) {
        const labels = new Set<string>(Object.values(metricDefinitions).flatMap((one) => [...one.labels]))
        for (const label of by.split(',').map((one) => one.trim())) expect(['le', ...labels]).toContain(label)
      }
      // Brackets are balanced.
      for (const [open, close] of ['()', '[]', '{}']) {
        expect(expr.split(open ?? '').length).toBe(expr.split(close ?? '').length)
      }
    }
    expect([...asked].toSorted()).toEqual(Object.keys(metricDefinitions).toSorted())
  })

  it('uses only variables that it defines', () => {
    const own = dashboard.templating.list.map(({ name }) => name)
    const used = [...JSON.stringify(panels).matchAll(/\$\{?(\w+)\}?/g)].map(([, name]) => name)
    expect(own).toEqual(['datasource', 'job', 'build'])
    for (const name of used) expect([...own, '__rate_interval']).toContain(name)
  })
})
