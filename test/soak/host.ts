/**
 * Starts and stops the bundled server, one process at a time, always on the same data directory. Writes the output of each
 * process to a file, and samples the process's memory and open files.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { backend } from '../e2e/backend.js'
import { StopWaiting, until } from '../e2e/until.js'
import { type Sample, reportOf, type UsageReport } from './usage.js'
import { usageOf } from './machine.js'

export interface Apis {
  readonly allocation: string
  readonly management: string
  readonly agent: string
}

export interface HostOptions {
  readonly root: string
  readonly dataDir: string
  readonly portRange: string
  /** More environment variables for the host. */
  readonly env?: Readonly<Record<string, string>>
  /** Called when the host exits without having been stopped. */
  readonly onUnexpectedExit: (how: string) => void
}

interface HostProcess {
  readonly number: number
  readonly child: ChildProcess
  readonly apis: Apis
  readonly readyAt: number
  readonly samples: Sample[]
}

const checkout = fileURLToPath(new URL('../..', import.meta.url))

export class Hosts {
  readonly #options: HostOptions
  /** Processes that were stopped with a signal. */
  readonly #stopped = new WeakSet<ChildProcess>()
  #count = 0
  #current: HostProcess | undefined
  #longest: HostProcess | undefined
  readonly #errors = new Map<string, number>()

  constructor(options: HostOptions) {
    this.#options = options
  }

  /** Undefined while no host runs. */
  get apis(): Apis | undefined {
    return this.#current?.apis
  }

  get pid(): number | undefined {
    return this.#current?.child.pid
  }

  /** Number of processes started so far. */
  get count(): number {
    return this.#count
  }

  /** Starts a host. Resolves when the host is ready. */
  async start(): Promise<void> {
    const number = ++this.#count
    const { dataDir, portRange, onUnexpectedExit } = this.#options
    const env = {
      ...own(['PATH', 'HOME', 'TMPDIR', 'LANG', 'DOCKER_HOST']),
      BACKEND: backend,
      ...{ ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', SAMPLE: 'off' },
      ...{ DATA_DIR: dataDir, PORT_RANGE: portRange },
      ...this.#options.env,
    }
    const files = [this.#file(number, 'log'), this.#file(number, 'err')].map((path) => openSync(path, 'a'))
    const command = ['dist/src/cli/main.js', 'serve']
    const child = spawn(process.execPath, command, { cwd: checkout, env, stdio: ['ignore', ...files] })
    for (const file of files) closeSync(file)
    child.once('exit', (code, signal) => {
      if (this.#stopped.has(child)) return
      if (this.#current?.child === child) this.#current = undefined
      onUnexpectedExit(`host ${number} exited unexpectedly with ${code ?? signal}: ${this.#text(number, 'err').trim()}`)
    })
    const ready = await until('the host is ready', () => {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new StopWaiting('the host exited before it was ready')
      return this.#lines(number).find(({ message }) => message === 'ready')
    })
    const url = (name: string) => String(ready[name])
    const apis = { allocation: url('allocation'), management: url('management'), agent: url('agent') }
    this.#current = { number, child, apis, readyAt: performance.now(), samples: [] }
  }

  /** Signals the host, which then gets no more calls. Resolves to its exit code or signal. */
  async stop(signal: NodeJS.Signals): Promise<number | string | null> {
    const host = this.#current
    if (!host) return null
    this.#stopped.add(host.child)
    this.#current = undefined
    const exited = hasExited(host.child) ? undefined : once(host.child, 'exit')
    host.child.kill(signal)
    await exited
    this.#close(host)
    return host.child.exitCode ?? host.child.signalCode
  }

  /** Drains the fleet, then stops the host, which keeps answering calls during the drain. */
  async drain(): Promise<number | string | null> {
    const host = this.#current
    if (!host) return null
    await fetch(`${host.apis.management}/api/v1/drain`, { method: 'POST' })
    return this.stop('SIGTERM')
  }

  sample(servers: number, settled: boolean): void {
    const host = this.#current
    const usage = usageOf(host?.child.pid ?? 0)
    if (host && usage) host.samples.push({ ...usage, servers, settled, atMs: performance.now() - host.readyAt })
  }

  /** The memory and open files of the host that ran longest. */
  usage(): UsageReport | undefined {
    return this.#longest && reportOf(this.#longest.samples)
  }

  /** The samples from the current host. */
  samples(): readonly Sample[] {
    return this.#current?.samples ?? []
  }

  /** Number of errors that hosts logged, by message. */
  errorsLogged(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#errors)
  }

  #close(host: HostProcess): void {
    if (ageOf(host) > ageOf(this.#longest)) this.#longest = host
    for (const { level, message } of this.#lines(host.number)) {
      if (level === 'error') this.#errors.set(String(message), (this.#errors.get(String(message)) ?? 0) + 1)
    }
  }

  #file(number: number, kind: 'log' | 'err'): string {
    return join(this.#options.root, `host-${number}.${kind}`)
  }

  #text(number: number, kind: 'log' | 'err'): string {
    return readFileSync(this.#file(number, kind), 'utf8')
  }

  #lines(number: number): readonly Readonly<Record<string, unknown>>[] {
    const whole = this.#text(number, 'log').split('\n').slice(0, -1)
    return whole.flatMap((line): Readonly<Record<string, unknown>>[] =>
      line.startsWith('{') ? [JSON.parse(line)] : [],
    )
  }
}

function ageOf(host: HostProcess | undefined): number {
  return host?.samples.at(-1)?.atMs ?? -1
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

function own(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
