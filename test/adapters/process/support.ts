/** Shared by the tests of the process backend: directories, specs, small games in Node, and waiting. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processBackend, type ProcessBackendOptions } from '../../../adapters/process/index.js'
import type { Backend, InstanceSpec } from '../../../src/contracts/backend.js'

const cleanups: (() => Promise<void> | void)[] = []

/** Cleans up in reverse order. Call it in `afterEach`. */
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
}

export function onCleanUp(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup)
}

/** A temporary directory for one test. All its instances are terminated after the test. */
export function freshDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'gamekeeper-process-'))
  onCleanUp(async () => {
    const last = processBackend({ directory })
    for (const { ref, uid } of await last.list()) await last.destroy(ref, uid, { graceMs: 0 })
    await last.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return directory
}

export function open(directory: string, options: ProcessBackendOptions = {}): Backend {
  const backend = processBackend({ directory, pollIntervalMs: 20, ...options })
  onCleanUp(() => backend.close())
  return backend
}

export interface GameOptions {
  readonly name?: string
  readonly uid?: string
  readonly ports?: readonly number[]
  readonly env?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
  readonly workingDir?: string
  readonly containerPorts?: readonly object[]
  readonly stdin?: boolean
  /** `resources.limits.memory` */
  readonly memory?: string
}

/** A spec with this command. */
export function specOf(command: readonly string[], options: GameOptions = {}): InstanceSpec {
  const {
    name = 'arena-aaaaa',
    uid = `uid-of-${name}`,
    ports = [],
    env = {},
    args,
    workingDir,
    containerPorts,
    stdin,
    memory,
  } = options
  return {
    ref: { namespace: 'default', name },
    uid,
    build: { namespace: 'default', name: 'arena', uid: 'uid-of-build', buildID: 'build-id' },
    template: {
      spec: {
        containers: [
          {
            name: 'game',
            command,
            env: Object.entries(env).map(([variable, value]) => ({ name: variable, value })),
            ...(args ? { args } : {}),
            ...(workingDir === undefined ? {} : { workingDir }),
            ...(containerPorts ? { ports: containerPorts } : {}),
            ...(stdin === undefined ? {} : { stdin }),
            ...(memory === undefined ? {} : { resources: { limits: { memory } } }),
          },
        ],
      },
    },
    portsToExpose: ports,
    sdk: { heartbeatEndpoint: '127.0.0.1:56001', sessionHostId: `${name}.secret`, buildMetadata: { map: 'dust' } },
  }
}

/** A spec whose game is JavaScript. */
export function gameOf(code: string, options: GameOptions = {}): InstanceSpec {
  return specOf([process.execPath, '-e', code], options)
}

/** A game that runs until it is terminated. */
export const idle = 'setInterval(() => {}, 1e6);'

/** A statement that writes the process id to this file. */
export function saysPid(path: string): string {
  return `require('fs').writeFileSync(${JSON.stringify(path)}, String(process.pid));`
}

/** Polls until the result is neither undefined nor false. */
export async function until<T>(
  what: string,
  find: () => Promise<T | undefined | false> | T | undefined | false,
  limitMs = 60_000,
): Promise<T> {
  const end = Date.now() + limitMs
  for (;;) {
    const answer = await find()
    if (answer !== undefined && answer !== false) return answer
    if (Date.now() > end) throw new Error(`timed out after ${limitMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Waits for the number that a game writes to this file. */
export function numberIn(path: string): Promise<number> {
  return until(`a number in ${path}`, () => {
    const number = Number(contentOf(path) ?? '')
    return Number.isInteger(number) && number > 0 && number
  })
}

export function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // Not written yet.
    return undefined
  }
}

/** True while the process is running. A zombie does not count as running. */
export function runs(pid: number): boolean {
  const stat = contentOf(`/proc/${pid}/stat`)
  if (stat !== undefined) return !/^\d+ \(.*\) [ZX]/s.test(stat)
  if (process.platform === 'linux') return false
  try {
    process.kill(pid, 0)
    return true
  } catch {
    // No such process.
    return false
  }
}

export async function onlyInstance(backend: Backend) {
  const [instance, ...others] = await backend.list()
  if (!instance || others.length > 0) throw new Error(`expected one instance, but there are ${others.length + 1}`)
  return instance
}

export function exited(backend: Backend) {
  return until('the instance has exited', async () => {
    const instance = await onlyInstance(backend)
    return instance.phase === 'exited' && instance
  })
}
