/** The text of metrics is made in slices, and is the same as prom-client's. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { createFleet } from '../../src/index.js'
import { fleetMetrics } from '../../src/metrics/index.js'

const spec = (buildID: string) => ({
  ...{ buildID, standingBy: 0, max: 1, portsToExpose: [] },
  template: { spec: { containers: [{ name: 'game', command: ['game'] }] } },
})

it('the text of many builds and of the host app’s metrics is complete, and other work runs while it is made', async () => {
  const fleet = await createFleet({ backend: memoryBackend() })
  for (let i = 0; i < 1_000; i++) {
    await fleet.builds.create({ metadata: { name: `build-${i}` }, spec: spec(`id-${i}`) })
  }
  const registry = new Registry()
  registry.setDefaultLabels({ region: 'a"b\\c' })
  new Gauge({ name: 'own_gauge', help: 'g', labelNames: ['l'], registers: [registry] }).set({ l: 'x' }, NaN)
  new Counter({ name: 'own_counter', help: 'a\nhelp', labelNames: ['l'], registers: [registry] }).inc({ l: 'x\ny' })
  new Histogram({ name: 'own_histogram', help: 'h', registers: [registry] }).observe(0.2)
  const metrics = fleetMetrics(fleet, { registry })
  let turns = 0
  let isDone = false
  const watch = async () => {
    while (!isDone) {
      await nextTurn()
      turns++
    }
  }
  const watching = watch()
  const [text, again] = await Promise.all([metrics.text(), metrics.text()])
  isDone = true
  await watching
  expect(turns).toBeGreaterThan(10)
  expect(again).toBe(text)
  expect(withoutDurations(text)).toBe(withoutDurations(await registry.metrics()))
  expect(text.match(/^gamekeeper_servers{/gm)).toHaveLength(5_000)
  await fleet.close()
})

/** Reading the fleet's health is itself measured. */
function withoutDurations(text: string): string {
  return text.replace(/^gamekeeper_\w+_duration_seconds_.*\n/gm, '')
}
