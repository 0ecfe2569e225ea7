/**
 * A soak test: runs the bundled server with real processes under a random workload, and compares its state with the expected
 * state. Cleans up at the end, but keeps its directory after a violation.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { messageOf } from '../../src/contracts/errors.js'
import { seededRandom } from '../../src/testing/virtual-clock.js'
import { backend, imageBuilt, removeContainersOf } from '../e2e/backend.js'
import { listBuilds, listServers, recount } from '../e2e/client.js'
import { until } from '../e2e/until.js'
import { createBuild, deleteBuild } from './builds.js'
import { leftovers, checkAll, settle, watch } from './checks.js'
import { Hosts } from './host.js'
import { type Violation, ExpectedState } from './expected-state.js'
import { killAllIn, openPorts } from './machine.js'
import { answered, between, count, type SoakContext } from './context.js'
import { endSomeMatch, nextAction } from './workload.js'
import { endMatch } from './sessions.js'
import type { UsageReport } from './usage.js'

export interface SoakOptions {
  /** Duration of the workload, excluding start and cleanup. */
  readonly length: { readonly minutes: number } | { readonly steps: number }
  readonly seed: number
  readonly signal?: AbortSignal
  readonly onProgress?: (line: string) => void
}

export interface SoakSummary {
  readonly seed: number
  readonly seconds: number
  readonly steps: number
  readonly hosts: number
  readonly counts: Readonly<Record<string, number>>
  /** Number of crashes that the fleet counted but the test did not cause, in builds that exist at the end. */
  readonly unexpectedCrashes: number
  readonly usage: UsageReport | undefined
  /** Number of logged errors by message. */
  readonly errorsLogged: Readonly<Record<string, number>>
  readonly interrupted: boolean
  readonly violations: readonly Violation[]
  /** The directory with logs and data, kept after a violation. */
  readonly keptIn: string | undefined
}

/** The test stops after this many violations. */
const maxViolations = 3
const maxTasks = 16

export async function soak(options: SoakOptions): Promise<SoakSummary> {
  if (process.platform !== 'linux') throw new Error('the soak test requires Linux: it reads /proc')
  if (backend === 'docker') await imageBuilt()
  const startedAt = performance.now()
  const root = await mkdtemp(join(tmpdir(), 'gamekeeper-soak-'))
  const tooMany = new AbortController()
  const expected: ExpectedState = new ExpectedState(() => {
    if (expected.violations.length >= maxViolations) tooMany.abort()
  })
  const first = 22_000 + (process.pid % 120) * 60
  const ports = { first, last: first + 59 }
  const dataDir = join(root, 'data')
  const hosts = new Hosts({
    root,
    dataDir,
    portRange: `${ports.first}-${ports.last}`,
    onUnexpectedExit: (message) => {
      expected.violate(message)
      tooMany.abort()
    },
  })
  const signal = AbortSignal.any([tooMany.signal, ...(options.signal ? [options.signal] : [])])
  const random = seededRandom(options.seed)
  const run = new Run({ root, dataDir, ports, hosts, expected, random, signal, counts: new Map() }, options)
  try {
    await run.run()
  } catch (error) {
    if (!signal.aborted) expected.violate(`the soak test failed: ${messageOf(error)}`)
  } finally {
    await hosts.stop('SIGKILL')
    killAllIn(dataDir)
    if (backend === 'docker') await removeContainersOf(dataDir)
  }
  const failed = expected.violations.length > 0
  if (!failed) await rm(root, { recursive: true, force: true, maxRetries: 5 })
  return {
    seed: options.seed,
    seconds: Math.round((performance.now() - startedAt) / 1000),
    steps: run.steps,
    hosts: hosts.count,
    counts: Object.fromEntries([...run.context.counts].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    unexpectedCrashes: run.unexpectedCrashes,
    usage: hosts.usage(),
    errorsLogged: hosts.errorsLogged(),
    interrupted: options.signal?.aborted ?? false,
    violations: expected.violations,
    keptIn: failed ? root : undefined,
  }
}

class Run {
  readonly context: SoakContext
  readonly #options: SoakOptions
  readonly #tasks = new Set<Promise<void>>()
  steps = 0
  unexpectedCrashes = 0
  #startedAt = 0

  constructor(context: SoakContext, options: SoakOptions) {
    this.context = context
    this.#options = options
  }

  async run(): Promise<void> {
    const { context } = this
    const foreign = openPorts(context.ports.first, context.ports.last)
    const watching = new AbortController()
    await context.hosts.start()
    await createBuild(context, { name: 'arena', standingBy: 3, max: 8 })
    await createBuild(context, { name: 'duel', standingBy: 2, max: 5 })
    await createBuild(context, { name: 'event', standingBy: 1, max: 3 })
    this.#startedAt = performance.now()
    const watched = watch(context, watching.signal)
    try {
      await this.#runWorkload()
      await this.#drain()
      await this.#cleanUp()
    } finally {
      watching.abort()
      // Ends calls that wait for a server.
      if (context.signal.aborted) await context.hosts.stop('SIGKILL')
      await Promise.allSettled([watched, ...this.#tasks])
    }
    await watched
    const left = await leftovers(context, foreign)
    if (left.length > 0) context.expected.violate(`left behind: ${left.join(', ')}`)
  }

  /** Restarts the host often at first. The last 40 % of the workload is one long run, for measuring memory and open files. */
  async #runWorkload(): Promise<void> {
    const { context } = this
    for (;;) {
      const isLongRun = this.#done() >= 0.6
      await this.#actUntil(isLongRun ? 1 : this.#done() + this.#shortRun())
      if (this.#done() >= 1) break
      await this.#restart()
    }
    await this.#settle()
    context.signal.throwIfAborted()
  }

  /** Progress of the workload, from 0 to 1. */
  #done(): number {
    const { length } = this.#options
    if ('steps' in length) return this.steps / length.steps
    return (performance.now() - this.#startedAt) / (length.minutes * 60_000)
  }

  /** Returns the length of a short run, 20 to 60 s or about a third of the steps, as a fraction of the workload. */
  #shortRun(): number {
    const { length } = this.#options
    return 'steps' in length ? 0.31 : between(this.context, 20_000, 60_000) / (length.minutes * 60_000)
  }

  /** Acts until this progress. Lets the fleet settle from time to time, but not at the end: the host is stopped while busy. */
  async #actUntil(progress: number): Promise<void> {
    const { context } = this
    const settleInterval = 'steps' in this.#options.length ? 0.2 : 25_000 / (this.#options.length.minutes * 60_000)
    let settleAt = this.#done() + settleInterval / 2
    while (this.#done() < progress && !context.signal.aborted) {
      this.steps++
      this.#start(nextAction(context))
      await pause(between(context, 100, 500))
      while (this.#tasks.size >= maxTasks) await Promise.race(this.#tasks)
      if (this.#done() < settleAt) continue
      await this.#settle()
      settleAt = this.#done() + settleInterval
    }
  }

  async #restart(): Promise<void> {
    const { context } = this
    const { expected, hosts, random } = context
    const signal = random() < 0.7 ? 'SIGKILL' : 'SIGTERM'
    expected.note(`${signal} to host ${hosts.count}`)
    count(context, `hosts stopped with ${signal}`)
    const exit = await hosts.stop(signal)
    if (signal === 'SIGTERM' && exit !== 0) expected.violate(`host ${hosts.count} exited with ${exit} on SIGTERM`)
    // Matches also end while there is no host.
    if (random() < 0.5) {
      for (let i = 0; i < 2; i++) this.#start(endSomeMatch(context))
      await pause(between(context, 0, 4_000))
    }
    context.signal.throwIfAborted()
    await hosts.start()
    expected.note(`host ${hosts.count} is ready`)
    await checkAll(context)
    this.#reportProgress()
  }

  async #settle(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks)
    await settle(this.context)
    this.#reportProgress()
  }

  #start(action: Promise<void> | undefined): void {
    if (!action) return
    const { expected, signal } = this.context
    const task: Promise<void> = action
      .catch((error: unknown) => {
        if (!signal.aborted) expected.violate(`an action failed: ${messageOf(error)}`)
      })
      .finally(() => this.#tasks.delete(task))
    this.#tasks.add(task)
  }

  /** Drains the fleet: it allocates nothing, terminates idle servers, and is stopped after the last match. */
  async #drain(): Promise<void> {
    const { context } = this
    const { hosts, expected, signal } = context
    expected.note('drain')
    let exit: unknown
    const drained = hosts.drain().then((code) => (exit = code))
    await until('only matches are left', async () => {
      const { apis } = hosts
      if (signal.aborted || !apis) return true
      const servers = await listServers(apis)
      return servers.length === recount(servers).Active
    })
    await checkAll(context)
    if (exit !== undefined && expected.allocated().length > 0)
      expected.violate('the host exited before all matches were over')
    for (const session of expected.allocated()) this.#start(endMatch(context, session, 'quit'))
    await Promise.all(this.#tasks)
    await until('the drained host has exited', () => signal.aborted || exit !== undefined)
    signal.throwIfAborted()
    await drained
    if (exit !== 0) expected.violate(`the drained host exited with ${String(exit)}`)
  }

  /** Starts a last host and deletes all builds. */
  async #cleanUp(): Promise<void> {
    const { context } = this
    const { hosts, expected } = context
    await hosts.start()
    await settle(context)
    await this.#countCrashes()
    for (const build of [...expected.builds.values()]) await deleteBuild(context, build)
    await settle(context)
    const exit = await hosts.stop('SIGTERM')
    if (exit !== 0) expected.violate(`the last host exited with ${exit}`)
    this.#reportProgress()
  }

  async #countCrashes(): Promise<void> {
    for (const { metadata, status } of await answered(this.context, listBuilds)) {
      const caused = this.context.expected.builds.get(metadata.name)?.crashesCaused ?? 0
      this.unexpectedCrashes += Math.max(0, status.crashesCount - caused)
    }
  }

  #reportProgress(): void {
    const { hosts, expected, counts } = this.context
    const last = hosts.samples().at(-1)
    const rss = last ? `, ${Math.round(last.rssMiB)} MiB, ${last.fds} files` : ''
    this.#options.onProgress?.(
      `${Math.round((performance.now() - this.#startedAt) / 1000)} s: ${this.steps} steps, host ${hosts.count}${rss}; ` +
        `${expected.allocated().length} matches running, ${counts.get('sessions allocated') ?? 0} so far; ${expected.violations.length} violations`,
    )
  }
}
