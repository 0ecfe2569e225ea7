/**
 * Which test files run when, and which of them side by side. With REQUIRE_ENGINES, `npm test` runs the inner circle; without it, only
 * what needs no engine. `npm run test:all` runs everything. docs/explanation/running-the-tests.md has
 * the table.
 */
import { filesUnder, read } from './package/sources.js'

export type Scope = 'brief' | 'inner' | 'all'

/** Runs of files that are named include every file, so that these run. */
export function scopeOf(env: NodeJS.ProcessEnv, args: readonly string[]): Scope {
  const named = args.some((argument) => argument.startsWith('test/') && !argument.endsWith('vitest.config.ts'))
  if (env['TEST_SCOPE'] === 'all' || named) return 'all'
  return env['REQUIRE_ENGINES'] === undefined ? 'brief' : 'inner'
}

const files = filesUnder('test').filter((file) => file.endsWith('.test.ts'))

/** Long searches. The inner circle has a fixed part of each, or what they search for, pinned. */
export const outer: Readonly<Record<string, string>> = {
  'test/bench/bench.test.ts': 'a short run of every benchmark',
  'test/simulation/more-seeds.test.ts': '600 more seeds of the simulation',
  'test/simulation/planted-bugs-search.test.ts': 'the search for each planted bug in many seeds',
  'test/soak/abuse/abuse.test.ts': 'the soak test with abuse',
  'test/soak/soak.test.ts': 'the soak test, on processes and on Docker',
  'test/stores/mutated-stores.test.ts': '320 randomly damaged stores',
}

/** What the outer circle runs that is no file of its own. */
export const outerBesides: readonly string[] = [
  'the scenarios that are the same on each backend, on Docker and on Kubernetes as well',
  'Node 22 and 24, Bun and Deno',
  'the optional packages in their oldest and newest versions',
]

/** The rules, and the engine on a virtual clock. They share nothing but modules, so one process runs many of these files. */
export const logic = files.filter((file) => /^test\/(contracts|engine|fleet|metrics|rules|util)\//.test(file))

/** They cordon simulated nodes, need most of them, measure the machine, or use the ports that pages print. */
const alone = [
  ...['pages', 'quickstart', 'starter'].map(scenario),
  'test/adapters/kubernetes/leader-election/forwarding.test.ts',
  'test/adapters/kubernetes/nodes/cordons.test.ts',
  'test/adapters/kubernetes/pods/disruptions.test.ts',
  'test/adapters/kubernetes/scale.test.ts',
  'test/bench/bench.test.ts',
]

/** Scenarios that run on processes first, and again as containers and as pods. */
const onEveryBackend = ['endings', 'host-killed', 'leaving', 'maintenance', 'scaling-policies', 'without-sdk']
/** The same on each backend: the inner circle runs them on processes, where they cost least. */
const onOneBackend = [
  'broken-builds',
  'burst',
  'deletion',
  'first-steps',
  'gsdk-games',
  'late-starts',
  'session-ids',
  'several-sessions',
]
/** Scenarios of a single backend. */
const onDockerOnly = ['dashboard']
const onKubernetesOnly = ['outages']

/** Scenarios without an engine that every run includes. */
const brief = ['first-steps', 'quickstart', 'host-killed'].map(scenario)

/** Says that an engine is missing, and fails if it is required. */
const leftOut = [scenario('left-out')]

/** A machine with systemd, in a container. */
const systemd = 'test/adapters/process/systemd/systemd.test.ts'
const simulation = files.filter((file) => file.startsWith('test/simulation/'))
const scenarios = files.filter((file) => file.startsWith('test/e2e/'))
/** A test that needs an engine says so by one of these modules. */
const onEngines = files.filter((file) => /\/describe-(on|with)-[a-z-]+\.js'/.test(read(file)))

/** They start dozens of processes, or keep a core busy for minutes. */
const heavy = new Set([...onEngines, ...scenarios, ...simulation, ...Object.keys(outer), systemd])

/** Their games are processes of this machine, whose tables they read and whose trees they kill. */
export const processes = files.filter((file) => file.startsWith('test/adapters/process/') && !heavy.has(file))

/**
 * Everything else: sockets and files of its own, at most. One process runs many of these files, too: to load the sources anew for
 * each file took longer than most of them.
 */
export const parts = files.filter((file) => !heavy.has(file) && !logic.includes(file) && !processes.includes(file))

/** Two files at a time, before those of `last`. */
export function serial(scope: Scope): readonly string[] {
  if (scope === 'brief') return brief
  const excluded = new Set([...alone, ...[...onDockerOnly, ...onKubernetesOnly, 'left-out'].map(scenario)])
  return [...heavy].filter((file) => !excluded.has(file) && (scope === 'all' || !(file in outer)))
}

export function last(scope: Scope): readonly string[] {
  return scope === 'brief' ? [] : alone.filter((file) => scope === 'all' || !(file in outer))
}

export function onDocker(scope: Scope, hasEngine: boolean): readonly string[] {
  if (scope === 'brief') return []
  if (!hasEngine) return leftOut
  const inner = [...onEveryBackend, ...onDockerOnly].map(scenario)
  return scope === 'inner' ? inner : [...inner, ...onOneBackend.map(scenario), 'test/soak/soak.test.ts']
}

export function onKubernetes(scope: Scope, hasCluster: boolean): readonly string[] {
  if (scope === 'brief') return []
  if (!hasCluster) return leftOut
  const inner = onEveryBackend.map(scenario)
  return scope === 'inner' ? inner : [...inner, ...onOneBackend.map(scenario)]
}

/** They stop the API server of the cluster. */
export function onKubernetesAlone(scope: Scope, hasCluster: boolean): readonly string[] {
  return scope === 'brief' || !hasCluster ? [] : onKubernetesOnly.map(scenario)
}

function scenario(name: string): string {
  return `test/e2e/${name}.test.ts`
}
