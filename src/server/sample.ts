/**
 * The sample: a build with the example game server, created in an empty fleet, and commands to try that can be pasted into a
 * shell. Reads examples/game-server/build.json.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { access, readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Fleet, GameServerBuildInput } from '../contracts/fleet.js'
import { FleetError, type GameServerBuild } from '../index.js'
import { ownDescriptors } from '../platform/own-descriptors.js'
import { packageRoot } from '../platform/packages.js'
import type { ServerLog } from './log.js'
import type { Config } from './settings.js'

interface SampleOptions {
  readonly fleet: Fleet
  readonly backend: Config['backend']
  /** Default: the fleet's default namespace. */
  readonly namespace?: string | undefined
  readonly log: ServerLog
  /** Once aborted, no sample is created. */
  readonly signal: AbortSignal
  /** How long building the image may take. */
  readonly imageTimeoutMs?: number
}

/**
 * Creates the sample build if the fleet has no builds. Returns the sample build if the fleet has it, even from an earlier
 * start. Never rejects: if it fails, the server runs without a sample, and the log says why.
 */
export async function ensureSample(options: SampleOptions): Promise<GameServerBuild | undefined> {
  const { fleet, backend, namespace, log, signal, imageTimeoutMs: timeoutMs } = options
  try {
    const sample = await readSample(backend, namespace)
    const builds = await fleet.builds.list()
    if (builds.length > 0) return builds.find((build) => build.spec.buildID === sample.spec.buildID)
    if (backend === 'docker') {
      if (!(await buildSampleImage({ log, signal, ...(timeoutMs !== undefined && { timeoutMs }) }))) return undefined
      // Building the image took a while, so another build may exist by now.
      if ((await fleet.builds.list()).length > 0) return undefined
    }
    if (signal.aborted) return undefined
    if (backend === 'kubernetes')
      log.info({ image: sampleImage }, `the sample needs its image on the nodes: ${manualBuildCommand()}`)
    return await fleet.builds.create(sample, { caller: { name: 'sample' } })
  } catch (error) {
    // Another host leads and creates the sample.
    if (FleetError.is(error, 'not-leader')) return undefined
    log.warn({ err: error }, 'the sample build could not be created')
    return undefined
  }
}

const programName = 'examples/game-server/server.mjs'

/** The game server of the sample, as an absolute path. */
export function sampleProgram(): string {
  return join(packageRoot(), programName)
}

/** Returns the build in build.json. Containers get an image, and processes get a command with absolute paths. */
async function readSample(backend: Config['backend'], namespace?: string): Promise<GameServerBuildInput> {
  const text = await readFile(join(packageRoot(), 'examples/game-server/build.json'), 'utf8')
  const isImage = backend === 'docker' || backend === 'kubernetes'
  const sample: GameServerBuildInput = JSON.parse(text, (key, value: unknown) => {
    if (key === 'metadata' && namespace !== undefined && isObject(value)) return { ...value, namespace }
    if (!isImage) return value === programName ? sampleProgram() : value
    if (key !== 'containers' || !Array.isArray(value)) return value
    // The image exists only locally, not in a registry.
    return value.map((container: object) => ({ ...container, image: sampleImage, imagePullPolicy: 'Never' }))
  })
  return sample
}

interface SampleCommandsInput {
  readonly allocationUrl: string
  readonly managementUrl: string
  /** True for the memory backend, which has no process to connect to. */
  readonly simulated: boolean
}

/** Returns commands to try, one per line. All except `nc` work without changes. */
export function commandsToTry({ metadata, spec }: GameServerBuild, input: SampleCommandsInput): readonly string[] {
  const { allocationUrl, managementUrl, simulated } = input
  const builds = `${managementUrl}/api/v1/gameserverbuilds`
  const session = { sessionID: randomUUID(), sessionCookie: 'map=dust', initialPlayers: ['amie', 'bob'] }
  const own = {
    metadata: { name: `duel-${randomUUID().slice(0, 4)}`, ...inNamespace(metadata.namespace) },
    spec: { ...spec, buildID: randomUUID(), standingBy: 1, max: 3 },
  }
  const talk = [
    'Talk to it: ADDRESS is the "IPV4Address", PORT the number after the colon in "Ports". Type: hello amie',
    'nc ADDRESS PORT',
    '',
  ]
  return [
    '',
    'Try it in another terminal. Create another build:',
    post(builds, own),
    '',
    `Allocate a server of build ${metadata.name}; repeating it returns the same server, since the session is the same:`,
    post(`${allocationUrl}/api/v1/allocate?wait=10&confirm=true`, { buildID: spec.buildID, ...session }),
    '',
    ...(simulated ? [] : talk),
    'List the servers:',
    `curl -sS -w '\\n' ${quoted(`${managementUrl}/api/v1/gameservers`)}`,
    '',
  ]
}

function inNamespace(namespace: string): { readonly namespace?: string } {
  return namespace === 'default' ? {} : { namespace }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function post(url: string, body: object): string {
  return `curl -sS -w '\\n' -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))} ${quoted(url)}`
}

/** Quotes text for a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

// Builds the sample's image from examples/game-server/Dockerfile with the `docker` command, in the Docker engine that the
// fleet uses.

const sampleImage = 'gamekeeper-example'
/** The command with which an operator can build the image manually. */
function manualBuildCommand(): string {
  return `cd ${packageRoot()} && docker build -f examples/game-server/Dockerfile -t ${sampleImage} .`
}

const defaultTimeoutMs = 5 * 60_000
/** How long `docker` may take to exit after SIGTERM. SIGKILL follows. */
const graceMs = 2_000
/** Enough of stderr to contain its last line. */
const maxStderrChars = 4_096

interface ImageOptions {
  readonly log: ServerLog
  /** Cancels the build. */
  readonly signal: AbortSignal
  readonly timeoutMs?: number
}

/** Resolves with true once the image exists, or with false if the build failed; logs the reason. Never rejects. */
async function buildSampleImage({ log, signal, timeoutMs = defaultTimeoutMs }: ImageOptions): Promise<boolean> {
  if (signal.aborted) return false
  const args = ['-H', await engineOf(process.env), 'build', '-f', 'examples/game-server/Dockerfile', '-t', sampleImage]
  const manually = `build it in ${packageRoot()} and restart: docker ${[...args, '.'].join(' ')}`
  log.info({ image: sampleImage }, "building the sample's image")
  const timeout = AbortSignal.timeout(timeoutMs)
  const problem = await run([...args, '.'], AbortSignal.any([signal, timeout]))
  if (problem === undefined) return true
  if (signal.aborted) log.info({}, "build of the sample's image cancelled")
  else if (timeout.aborted) {
    const seconds = timeoutMs / 1000
    log.warn({}, `the sample's image was not built within ${seconds} s, so there is no sample; ${manually}`)
  } else log.warn({ reason: problem }, `building the sample's image failed, so there is no sample; ${manually}`)
  return false
}

/**
 * Returns the engine that dockerode connects to, as an argument for `docker -H`. The `docker` command's own context may
 * point to a different engine.
 */
export async function engineOf(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const host = env['DOCKER_HOST'] ?? ''
  if (host === '' || host === 'unix://') return localEngine()
  if (host === 'npipe://') return windowsPipe
  return host.includes('//') ? host.replace(/^https?:/, 'tcp:') : `tcp://${host}`
}

const windowsPipe = 'npipe:////./pipe/docker_engine'

async function localEngine(): Promise<string> {
  if (process.platform === 'win32') return windowsPipe
  // Docker Desktop's socket.
  const desktopSocket = join(homedir(), '.docker', 'run', 'docker.sock')
  try {
    await access(desktopSocket)
    return `unix://${desktopSocket}`
  } catch {
    // Docker Desktop's socket does not exist: use the default.
    return 'unix:///var/run/docker.sock'
  }
}

/** Resolves once all of the command's processes have ended: with what went wrong, or undefined on success. */
function run(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  // The command gets its own process group, so that Ctrl-C does not reach it and its children can be killed with it.
  const child = spawn(...ownDescriptors('docker', args), {
    cwd: packageRoot(),
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => (stderr = (stderr + part).slice(-maxStderrChars)))
  return new Promise((resolve) => {
    let killing: NodeJS.Timeout | undefined
    const stop = () => {
      killGroup(child, 'SIGTERM')
      killing = setTimeout(() => killGroup(child, 'SIGKILL'), graceMs)
    }
    const finish = (problem: string | undefined) => {
      clearTimeout(killing)
      signal.removeEventListener('abort', stop)
      resolve(problem)
    }
    child.on('error', (error) => finish(error.message))
    child.on('close', (code, killed) => {
      if (code === 0) finish(undefined)
      else finish(stderr.trim().split('\n').at(-1) || `docker exited with ${code ?? killed}`)
    })
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  if (process.platform === 'win32') {
    child.kill(signal)
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The process group has already exited.
  }
}
