/**
 * The lives of one bundled server on one data directory. Starts and ends its process; keeps what it says in a file for
 * each life, and samples what it uses.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { backend } from '../e2e/backend.js'
import { Hopeless, until } from '../e2e/until.js'
import { type Sample, reportOf, type UsageReport } from './usage.js'
import { usageOf } from './machine.js'

export interface Apis {
  readonly allocation: string
  readonly management: string
}

export interface HostOptions {
  readonly root: string
  readonly dataDir: string
  readonly portRange: string
  /** It ended, and nobody had told it to. */
  readonly onDeath: (how: string) => void
}

interface Life {
  readonly number: number
  readonly child: ChildProcess
  readonly apis: Apis
  readonly readyAt: number
  readonly samples: Sample[]
}

const checkout = fileURLToPath(new URL('../..', import.meta.url))

export class Hosts {
  readonly #options: HostOptions
  /** Those that have been told to end. */
  readonly #told = new WeakSet<ChildProcess>()
  #lives = 0
  #life: Life | undefined
  #longest: Life | undefined
  readonly #faults = new Map<string, number>()

  constructor(options: HostOptions) {
    this.#options = options
  }

  /** Undefined while none runs. */
  get apis(): Apis | undefined {
    return this.#life?.apis
  }

  get pid(): number | undefined {
    return this.#life?.child.pid
  }

  get lives(): number {
    return this.#lives
  }

  /** Resolves once it is ready. */
  async start(): Promise<void> {
    const number = ++this.#lives
    const { dataDir, portRange, onDeath } = this.#options
    const env = {
      ...own(['PATH', 'HOME', 'TMPDIR', 'LANG', 'DOCKER_HOST']),
      BACKEND: backend,
      ...{ ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', SAMPLE: 'off' },
      ...{ DATA_DIR: dataDir, PORT_RANGE: portRange },
    }
    const files = [this.#file(number, 'log'), this.#file(number, 'err')].map((path) => openSync(path, 'a'))
    const command = ['--import', 'tsx', 'examples/server/main.ts']
    const child = spawn(process.execPath, command, { cwd: checkout, env, stdio: ['ignore', ...files] })
    for (const file of files) closeSync(file)
    child.once('exit', (code, signal) => {
      if (this.#told.has(child)) return
      if (this.#life?.child === child) this.#life = undefined
      onDeath(`host ${number} ended by itself with ${code ?? signal}: ${this.#text(number, 'err').trim()}`)
    })
    const ready = await until('the host is ready', () => {
      if (child.exitCode !== null || child.signalCode !== null) throw new Hopeless('the host ended before it was ready')
      return this.#lines(number).find(({ message }) => message === 'ready')
    })
    const apis = { allocation: String(ready['allocation']), management: String(ready['management']) }
    this.#life = { number, child, apis, readyAt: performance.now(), samples: [] }
  }

  /** Signals it, and resolves with how it ended. From the first moment on nobody is sent to it any more. */
  async end(signal: NodeJS.Signals): Promise<number | string | null> {
    const life = this.#life
    if (!life) return null
    this.#told.add(life.child)
    this.#life = undefined
    const exited = hasExited(life.child) ? undefined : once(life.child, 'exit')
    life.child.kill(signal)
    await exited
    this.#close(life)
    return life.child.exitCode ?? life.child.signalCode
  }

  /** Begins to drain, and goes on answering. */
  drain(): Promise<number | string | null> {
    const life = this.#life
    if (!life) return Promise.resolve(null)
    this.#told.add(life.child)
    const exited = once(life.child, 'exit')
    life.child.kill('SIGINT')
    return exited.then(() => {
      this.#life = undefined
      this.#close(life)
      return life.child.exitCode ?? life.child.signalCode
    })
  }

  sample(servers: number, settled: boolean): void {
    const life = this.#life
    const usage = usageOf(life?.child.pid ?? 0)
    if (life && usage) life.samples.push({ ...usage, servers, settled, atMs: performance.now() - life.readyAt })
  }

  /** Of the longest life. */
  usage(): UsageReport | undefined {
    return this.#longest && reportOf(this.#longest.samples)
  }

  /** Of the present life. */
  samples(): readonly Sample[] {
    return this.#life?.samples ?? []
  }

  /** What the hosts have logged as errors, with how often. */
  faults(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#faults)
  }

  #close(life: Life): void {
    if (ageOf(life) > ageOf(this.#longest)) this.#longest = life
    for (const { level, message } of this.#lines(life.number)) {
      if (level === 'error') this.#faults.set(String(message), (this.#faults.get(String(message)) ?? 0) + 1)
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

function ageOf(life: Life | undefined): number {
  return life?.samples.at(-1)?.atMs ?? -1
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

function own(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
