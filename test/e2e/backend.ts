/**
 * The backend of the scenarios in this folder: processes, or with E2E_BACKEND=docker containers of the tests' engine, or with
 * E2E_BACKEND=kubernetes pods of a cluster whose node is that engine. In each case games are processes of this machine.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { docker } from '../adapters/docker/engine.js'
import { buildExampleImage, exampleImage } from '../adapters/docker/example-image.js'
import { clusterApi, makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { installDefinitions } from '../adapters/kubernetes/support/definitions.js'
import { loadImage } from '../adapters/kubernetes/support/example-images.js'

const requested = process.env['E2E_BACKEND']
export const backend = requested === 'docker' || requested === 'kubernetes' ? requested : 'process'

let namespace = 'default'

/** The namespace of the scenario: `default`, or on a cluster its own. */
export function space(): string {
  return namespace
}

/** Environment variables that restrict a host to this namespace, with a lease that lasts on a busy machine. */
export function namespaceEnv(): Readonly<Record<string, string>> {
  return backend === 'kubernetes' ? { NAMESPACES: namespace, LEASE_MS: '15000' } : {}
}

/** Creates a namespace for the scenario. Returns a function that deletes it. */
export async function enterCluster(): Promise<() => Promise<void>> {
  const api = clusterApi()
  await installDefinitions()
  const own = await makeNamespace(api)
  namespace = own
  return async () => {
    await removeNamespace(api, own)
    api.close()
  }
}

let built: Promise<void> | undefined

/** Builds the image of the example game server once. */
export function imageBuilt(): Promise<void> {
  return (built ??= backend === 'kubernetes' ? buildExampleImage().then(tagSampleImage) : buildExampleImage())
}

/** The image fields of a container. */
export const imageOf = backend === 'process' ? {} : { image: exampleImage, imagePullPolicy: 'Never' }

/** Tags the image with the name that the sample build of the bundled server uses, and makes both known to the nodes. */
async function tagSampleImage(): Promise<void> {
  await docker.getImage(exampleImage).tag({ repo: 'gamekeeper-example', tag: 'latest' })
  for (const image of [exampleImage, 'gamekeeper-example']) await loadImage(image)
}

export interface GameContainer {
  readonly id: string
  readonly server: string
  readonly port: number
  /** The init process, followed by the game. */
  readonly pids: readonly number[]
}

/** The running containers of the fleet of this data directory. */
export async function containersOf(dataDir: string): Promise<readonly GameContainer[]> {
  const found = await Promise.all(
    (await listAll(dataDir)).map(async ({ Id, Labels, State }): Promise<GameContainer | undefined> => {
      if (State !== 'running') return undefined
      const pids = await pidsOf(Id)
      if (pids && backend === 'kubernetes') return podOf(Id, Labels, pids)
      const port = Number(/:(\d+)/.exec(Labels['gamekeeper.ports'] ?? '')?.[1] ?? 0)
      return pids && { id: Id, server: Labels['gamekeeper.server'] ?? '', port, pids }
    }),
  )
  return found.filter((container) => container !== undefined)
}

/** Names of all containers, including exited ones. */
export async function namesOfContainers(dataDir: string): Promise<readonly string[]> {
  return (await listAll(dataDir)).map(({ Names }) => Names[0] ?? 'a container without a name')
}

export async function removeContainersOf(dataDir: string): Promise<void> {
  for (const { Id } of await listAll(dataDir)) {
    await docker
      .getContainer(Id)
      .remove({ force: true, v: true })
      // Removed already, or being removed.
      .catch(() => {})
  }
}

/** Reads the kubelet's labels. Without an init process the game is listed twice. */
function podOf(id: string, labels: Readonly<Record<string, string>>, pids: readonly number[]): GameContainer {
  const port = Number(/"hostPort":(\d+)/.exec(labels['annotation.io.kubernetes.container.ports'] ?? '')?.[1] ?? 0)
  return { id, server: labels['io.kubernetes.pod.name'] ?? '', port, pids: [...pids.slice(0, 1), ...pids] }
}

async function listAll(dataDir: string) {
  if (backend === 'kubernetes') {
    const label = [`io.kubernetes.pod.namespace=${namespace}`, 'io.kubernetes.container.name=game']
    return docker.listContainers({ all: true, filters: { label } })
  }
  let fleet: string
  try {
    fleet = (await readFile(join(dataDir, 'docker-fleet'), 'utf8')).trim()
  } catch {
    return [] // There was no fleet.
  }
  return docker.listContainers({ all: true, filters: { label: [`gamekeeper.fleet=${fleet}`] } })
}

/** Undefined if the container has exited. */
async function pidsOf(id: string): Promise<readonly number[] | undefined> {
  try {
    const { Titles, Processes } = await docker.getContainer(id).top()
    const column = Titles.indexOf('PID')
    return Processes.map((row: readonly string[]) => Number(row[column]))
  } catch {
    return undefined
  }
}
