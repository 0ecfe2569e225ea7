/** At the end of a test run: the slowest files, and what the run has left out. */
import type { Reporter, TestModule } from 'vitest/node'
import { outer, outerBesides, scopeOf } from './circles.js'

const shown = 10
const withoutEngines = [
  'the adapters on a Docker engine and on a cluster (REQUIRE_ENGINES=docker,kubernetes)',
  'most scenarios, and the simulation with its planted bugs (npm run simulate)',
]

export class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length > shown) console.log(slowestOf(modules).join('\n'))
    const scope = scopeOf(process.env, process.argv)
    if (scope === 'all') return
    const left = [...(scope === 'brief' ? withoutEngines : []), ...Object.values(outer), ...outerBesides]
    console.log(['', '`npm run test:all` also runs:', ...left.map((what) => `  ${what}`)].join('\n'))
  }
}

function slowestOf(modules: readonly TestModule[]): readonly string[] {
  const slowest = modules
    .map((file) => {
      const { duration, collectDuration, setupDuration } = file.diagnostic()
      return { name: `${file.project.name} ${file.relativeModuleId}`, ms: duration + collectDuration + setupDuration }
    })
    .toSorted((a, b) => b.ms - a.ms)
  const rows = slowest.slice(0, shown).map(({ name, ms }) => `${(ms / 1_000).toFixed(1).padStart(7)} s  ${name}`)
  return ['', `The ${shown} slowest files:`, ...rows]
}
