/**
 * The sample: a build of the example game server for an empty fleet, and commands to try out on it that can be pasted
 * into a shell as they are. Reads examples/game-server/build.json.
 */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Fleet, FleetError, type GameServerBuild, type GameServerBuildInput } from 'gamekeeper'
import type { ServerLog } from './log.js'
import { buildSampleImage, imageByHand, sampleImage } from './sample-image.js'
import type { Config } from './settings.js'

const folder = new URL('../game-server/', import.meta.url)
const program = fileURLToPath(new URL('server.mjs', folder))

export interface SampleOptions {
  readonly fleet: Fleet
  readonly backend: Config['backend']
  /** Where it goes. Default: where builds go that name none. */
  readonly namespace?: string | undefined
  readonly log: ServerLog
  /** Once it is aborted no sample is made any more. */
  readonly signal: AbortSignal
  /** How long its image may take. */
  readonly imageLimitMs?: number
}

/**
 * Makes the sample build where there is no build at all. Returns it if the fleet has it, also from an earlier start. Never
 * rejects: a server does without a sample, and the log says why.
 */
export async function ensureSample(options: SampleOptions): Promise<GameServerBuild | undefined> {
  const { fleet, backend, namespace, log, signal, imageLimitMs: limitMs } = options
  try {
    const sample = await readSample(backend, namespace)
    const builds = await fleet.builds.list()
    if (builds.length > 0) return builds.find((build) => build.spec.buildID === sample.spec.buildID)
    if (backend === 'docker') {
      if (!(await buildSampleImage({ log, signal, ...(limitMs !== undefined && { limitMs }) }))) return undefined
      // That took a while, in which somebody may have made a build.
      if ((await fleet.builds.list()).length > 0) return undefined
    }
    if (signal.aborted) return undefined
    if (backend === 'kubernetes')
      log.info({ image: sampleImage }, `the sample needs an image on the nodes: ${imageByHand}`)
    return await fleet.builds.create(sample)
  } catch (error) {
    // Whoever leads the fleet has made one, or knows why not.
    if (FleetError.is(error, 'not-leader')) return undefined
    log.warn({ error }, 'the sample could not be made: there is no sample')
    return undefined
  }
}

/** The build of the file: as a container with an image, as a process with a command that works wherever this was started. */
async function readSample(backend: Config['backend'], namespace?: string): Promise<GameServerBuildInput> {
  const text = await readFile(new URL('build.json', folder), 'utf8')
  const isImage = backend === 'docker' || backend === 'kubernetes'
  return JSON.parse(text, (key, value: unknown) => {
    if (key === 'metadata' && namespace !== undefined && isObject(value)) return { ...value, namespace }
    if (!isImage) return value === 'examples/game-server/server.mjs' ? program : value
    if (key !== 'containers' || !Array.isArray(value)) return value
    // Built here and pushed nowhere: asking a registry for it could only mislead.
    return value.map((container: object) => ({ ...container, image: sampleImage, imagePullPolicy: 'Never' }))
  })
}

export interface Surroundings {
  readonly allocationUrl: string
  readonly managementUrl: string
  /** Game servers are only pretended: nobody can talk to them. */
  readonly pretended: boolean
}

/** What to try, line by line. Each command has a line of its own; each but `nc` works as it stands there. */
export function whatToTry({ metadata, spec }: GameServerBuild, surroundings: Surroundings): readonly string[] {
  const { allocationUrl, managementUrl, pretended } = surroundings
  const builds = `${managementUrl}/api/v1/gameserverbuilds`
  const session = { sessionID: randomUUID(), sessionCookie: 'map=dust', initialPlayers: ['amie', 'bob'] }
  const own = {
    metadata: { name: `duel-${randomUUID().slice(0, 4)}`, ...inNamespace(metadata.namespace) },
    spec: { ...spec, buildID: randomUUID(), standingBy: 1, max: 3 },
  }
  const talk = [
    'Talk to it: ADDRESS is its "IPV4Address", PORT the number behind the colon of "Ports". Type: hello amie',
    'nc ADDRESS PORT',
    '',
  ]
  return [
    '',
    'Try it in another terminal. Create a build of your own:',
    post(builds, own),
    '',
    `Allocate a server of build ${metadata.name}; said again, it gets the same server, since the session is the same:`,
    post(`${allocationUrl}/api/v1/allocate?wait=10`, { buildID: spec.buildID, ...session }),
    '',
    ...(pretended ? [] : talk),
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

/** For a shell: in single quotes nothing is special, and a single quote is said outside of them. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
