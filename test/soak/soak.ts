/**
 * A soak: the bundled server with real processes, under a script that a seed draws, with its ledger beside it. Stops by
 * itself; leaves nothing behind, unless something was wrong: then its directory stays to be looked at.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { messageOf } from '../../src/contracts/errors.js'
import { seededRandom } from '../../src/testing/random.js'
import { backend, imageBuilt, removeContainersOf } from '../e2e/backend.js'
import { listBuilds, listServers, recount } from '../e2e/client.js'
import { until } from '../e2e/until.js'
import { createBuild, deleteBuild } from './builds.js'
import { leftovers, lookAtAll, settle, watch } from './checks.js'
import { Hosts } from './host.js'
import { type Breach, Ledger } from './ledger.js'
import { killAllIn, openPorts } from './machine.js'
import { answered, between, count, type Scene } from './scene.js'
import { endOne, nextDeed } from './script.js'
import { end } from './sessions.js'
import type { UsageReport } from './usage.js'

export interface SoakOptions {
  /** How long the script acts; what comes before and after is not counted. */
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
  /** Crashes that the fleet has counted beyond those that the soak has caused, of the builds at the end. */
  readonly crashesNotCaused: number
  readonly usage: UsageReport | undefined
  /** What hosts have logged as errors, with how often. */
  readonly errorsLogged: Readonly<Record<string, number>>
  readonly interrupted: boolean
  readonly breaches: readonly Breach[]
  /** Where all is kept, when something was wrong. */
  readonly kept: string | undefined
}

/** After so many there is nothing more to learn. */
const enoughBreaches = 3
const mostTasks = 16

export async function soak(options: SoakOptions): Promise<SoakSummary> {
  if (process.platform !== 'linux') throw new Error('the soak looks at processes in /proc, which only Linux has')
  if (backend === 'docker') await imageBuilt()
  const startedAt = performance.now()
  const root = await mkdtemp(join(tmpdir(), 'gamekeeper-soak-'))
  const enough = new AbortController()
  const ledger: Ledger = new Ledger(() => {
    if (ledger.breaches.length >= enoughBreaches) enough.abort()
  })
  const first = 22_000 + (process.pid % 120) * 60
  const ports = { first, last: first + 59 }
  const dataDir = join(root, 'data')
  const hosts = new Hosts({
    root,
    dataDir,
    portRange: `${ports.first}-${ports.last}`,
    onDeath: (how) => {
      ledger.breach(how)
      enough.abort()
    },
  })
  const signal = AbortSignal.any([enough.signal, ...(options.signal ? [options.signal] : [])])
  const random = seededRandom(options.seed)
  const run = new Run({ root, dataDir, ports, hosts, ledger, random, signal, counts: new Map() }, options)
  try {
    await run.all()
  } catch (error) {
    if (!signal.aborted) ledger.breach(`the soak itself failed: ${messageOf(error)}`)
  } finally {
    await hosts.end('SIGKILL')
    killAllIn(dataDir)
    if (backend === 'docker') await removeContainersOf(dataDir)
  }
  const wrong = ledger.breaches.length > 0
  if (!wrong) await rm(root, { recursive: true, force: true, maxRetries: 5 })
  return {
    seed: options.seed,
    seconds: Math.round((performance.now() - startedAt) / 1000),
    steps: run.steps,
    hosts: hosts.lives,
    counts: Object.fromEntries([...run.scene.counts].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    crashesNotCaused: run.crashesNotCaused,
    usage: hosts.usage(),
    errorsLogged: hosts.faults(),
    interrupted: options.signal?.aborted ?? false,
    breaches: ledger.breaches,
    kept: wrong ? root : undefined,
  }
}

class Run {
  readonly scene: Scene
  readonly #options: SoakOptions
  readonly #tasks = new Set<Promise<void>>()
  steps = 0
  crashesNotCaused = 0
  #beganAt = 0

  constructor(scene: Scene, options: SoakOptions) {
    this.scene = scene
    this.#options = options
  }

  async all(): Promise<void> {
    const { scene } = this
    const foreign = openPorts(scene.ports.first, scene.ports.last)
    const watching = new AbortController()
    await scene.hosts.start()
    await createBuild(scene, { name: 'arena', standingBy: 3, max: 8 })
    await createBuild(scene, { name: 'duel', standingBy: 2, max: 5 })
    await createBuild(scene, { name: 'event', standingBy: 1, max: 3 })
    this.#beganAt = performance.now()
    const watched = watch(scene, watching.signal)
    try {
      await this.#act()
      await this.#drain()
      await this.#clear()
    } finally {
      watching.abort()
      // Calls that wait for a server would else be waited for.
      if (scene.signal.aborted) await scene.hosts.end('SIGKILL')
      await Promise.allSettled([watched, ...this.#tasks])
    }
    await watched
    const left = await leftovers(scene, foreign)
    if (left.length > 0) scene.ledger.breach(`left behind: ${left.join(', ')}`)
  }

  /** Short lives first; the last third is one long life, to see what a host uses over time. */
  async #act(): Promise<void> {
    const { scene } = this
    for (;;) {
      const long = this.#done() >= 0.6
      await this.#live(long ? 1 : this.#done() + this.#shortLife())
      if (this.#done() >= 1) break
      await this.#restart()
    }
    await this.#quiet()
    scene.signal.throwIfAborted()
  }

  /** From 0 to 1: how much of the script is over. */
  #done(): number {
    const { length } = this.#options
    if ('steps' in length) return this.steps / length.steps
    return (performance.now() - this.#beganAt) / (length.minutes * 60_000)
  }

  /** 20 to 60 s, or a third of the steps. */
  #shortLife(): number {
    const { length } = this.#options
    return 'steps' in length ? 0.31 : between(this.scene, 20_000, 60_000) / (length.minutes * 60_000)
  }

  /** Acts until so much is over. Comes to rest in between, never at the end: hosts are to end in the middle of things. */
  async #live(until_: number): Promise<void> {
    const { scene } = this
    const restEvery = 'steps' in this.#options.length ? 0.2 : 25_000 / (this.#options.length.minutes * 60_000)
    let restAt = this.#done() + restEvery / 2
    while (this.#done() < until_ && !scene.signal.aborted) {
      this.steps++
      this.#do(nextDeed(scene))
      await pause(between(scene, 100, 500))
      while (this.#tasks.size >= mostTasks) await Promise.race(this.#tasks)
      if (this.#done() < restAt) continue
      await this.#quiet()
      restAt = this.#done() + restEvery
    }
  }

  async #restart(): Promise<void> {
    const { scene } = this
    const { ledger, hosts, random } = scene
    const signal = random() < 0.7 ? 'SIGKILL' : 'SIGTERM'
    ledger.note(`${signal} to host ${hosts.lives}`)
    count(scene, `hosts ended by ${signal}`)
    const how = await hosts.end(signal)
    if (signal === 'SIGTERM' && how !== 0) ledger.breach(`host ${hosts.lives} ended with ${how} on SIGTERM`)
    // Matches go on and end without a host too.
    if (random() < 0.5) {
      for (let i = 0; i < 2; i++) this.#do(endOne(scene))
      await pause(between(scene, 0, 4_000))
    }
    scene.signal.throwIfAborted()
    await hosts.start()
    ledger.note(`host ${hosts.lives} is ready`)
    await lookAtAll(scene)
    this.#tell()
  }

  async #quiet(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks)
    await settle(this.scene)
    this.#tell()
  }

  #do(deed: Promise<void> | undefined): void {
    if (!deed) return
    const { ledger, signal } = this.scene
    const task: Promise<void> = deed
      .catch((error: unknown) => {
        if (!signal.aborted) ledger.breach(`a deed failed: ${messageOf(error)}`)
      })
      .finally(() => this.#tasks.delete(task))
    this.#tasks.add(task)
  }

  /** Ctrl-C: nothing is handed out, idle servers end, and matches go on until each has ended by itself. */
  async #drain(): Promise<void> {
    const { scene } = this
    const { hosts, ledger, signal } = scene
    ledger.note('SIGINT: drain')
    let exit: unknown
    const drained = hosts.drain().then((code) => (exit = code))
    await until('only matches are left', async () => {
      const { apis } = hosts
      if (signal.aborted || !apis) return true
      const servers = await listServers(apis)
      return servers.length === recount(servers).Active
    })
    await lookAtAll(scene)
    if (exit !== undefined && ledger.held().length > 0) ledger.breach('the host has left matches that were still on')
    for (const session of ledger.held()) this.#do(end(scene, session, 'quit'))
    await Promise.all(this.#tasks)
    await until('the drained host has left', () => signal.aborted || exit !== undefined)
    signal.throwIfAborted()
    await drained
    if (exit !== 0) ledger.breach(`the drained host ended with ${String(exit)}`)
  }

  /** A last life: idle servers come up again, and go with their builds. */
  async #clear(): Promise<void> {
    const { scene } = this
    const { hosts, ledger } = scene
    await hosts.start()
    await settle(scene)
    await this.#countCrashes()
    for (const build of [...ledger.builds.values()]) await deleteBuild(scene, build)
    await settle(scene)
    const exit = await hosts.end('SIGTERM')
    if (exit !== 0) ledger.breach(`the last host ended with ${exit}`)
    this.#tell()
  }

  async #countCrashes(): Promise<void> {
    for (const { metadata, status } of await answered(this.scene, listBuilds)) {
      const caused = this.scene.ledger.builds.get(metadata.name)?.crashesCaused ?? 0
      this.crashesNotCaused += Math.max(0, status.crashesCount - caused)
    }
  }

  #tell(): void {
    const { hosts, ledger, counts } = this.scene
    const last = hosts.samples().at(-1)
    const rss = last ? `, ${Math.round(last.rssMiB)} MiB, ${last.fds} files` : ''
    this.#options.onProgress?.(
      `${Math.round((performance.now() - this.#beganAt) / 1000)} s: ${this.steps} steps, host ${hosts.lives}${rss}; ` +
        `${ledger.held().length} matches on, ${counts.get('sessions held') ?? 0} so far; ${ledger.breaches.length} breaches`,
    )
  }
}
