/**
 * On which backend the scenarios of this folder run: processes, or with E2E_BACKEND=docker the same as containers of the
 * tests' engine, or with E2E_BACKEND=kubernetes as pods of a cluster whose node is that engine. This machine sees the processes
 * of all of them.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { docker } from '../adapters/docker/engine.js'
import { buildExampleImage, exampleImage } from '../adapters/docker/example-image.js'
import { clusterApi, makeNamespace, removeNamespace } from '../adapters/kubernetes/support/cluster.js'
import { installDefinitions } from '../adapters/kubernetes/support/definitions.js'

const asked = process.env['E2E_BACKEND']
export const backend = asked === 'docker' || asked === 'kubernetes' ? asked : 'process'

let namespace = 'default'

/** Where the builds of the scenario are: on a cluster in a namespace of its own. */
export function space(): string {
  return namespace
}

/** What a host has to be told to keep to that. */
export function inSpace(): Readonly<Record<string, string>> {
  return backend === 'kubernetes' ? { NAMESPACES: namespace } : {}
}

/** The cluster is ready for a scenario in a namespace that nobody else has. Returns what removes that again. */
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

/** The image of the example game server is there. */
export function imageBuilt(): Promise<void> {
  return (built ??= backend === 'kubernetes' ? buildExampleImage().then(nameSample) : buildExampleImage())
}

/** What a build names besides its command. */
export const imageOf = backend === 'process' ? {} : { image: exampleImage, imagePullPolicy: 'Never' }

/** On a cluster nobody but its operator brings the image of the bundled server's sample to the nodes. */
async function nameSample(): Promise<void> {
  await docker.getImage(exampleImage).tag({ repo: 'gamekeeper-example', tag: 'latest' })
}

export interface GameContainer {
  readonly id: string
  readonly server: string
  readonly port: number
  /** Of its init process and of the game itself, in that order. */
  readonly pids: readonly number[]
}

/** Those that run, of the fleet that has its name in this directory. */
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

/** Of all of them, those included that have ended. */
export async function namesOfContainers(dataDir: string): Promise<readonly string[]> {
  return (await listAll(dataDir)).map(({ Names }) => Names[0] ?? 'a container without a name')
}

export async function removeContainersOf(dataDir: string): Promise<void> {
  for (const { Id } of await listAll(dataDir)) {
    await docker
      .getContainer(Id)
      .remove({ force: true, v: true })
      // Gone already, or just going.
      .catch(() => {})
  }
}

/** The kubelet's own labels. Its games run without an init process: it counts as one all the same. */
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
    return [] // There never was a fleet.
  }
  return docker.listContainers({ all: true, filters: { label: [`gamekeeper.fleet=${fleet}`] } })
}

/** Undefined when it has just ended. */
async function pidsOf(id: string): Promise<readonly number[] | undefined> {
  try {
    const { Titles, Processes } = await docker.getContainer(id).top()
    const column = Titles.indexOf('PID')
    return Processes.map((row: readonly string[]) => Number(row[column]))
  } catch {
    return undefined
  }
}
