/**
 * The sample: a build with the example game server, created in an empty fleet, and commands to try that can be pasted into a
 * shell. Reads examples/game-server/build.json.
 */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Fleet, FleetError, type GameServerBuild, type GameServerBuildInput } from '../index.js'
import type { ServerLog } from './log.js'
import { packageRoot } from '../platform/package-root.js'
import { buildSampleImage, manualBuildCommand, sampleImage } from './sample-image.js'
import type { Config } from './settings.js'

export interface SampleOptions {
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

export interface SampleCommandsInput {
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
