/**
 * On which backend the scenarios of this folder run: processes, or with E2E_BACKEND=docker the same as containers of the
 * tests' engine, whose processes this machine sees too.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { docker } from '../adapters/docker/engine.js'
import { buildExampleImage, exampleImage } from '../adapters/docker/example-image.js'

export const backend = process.env['E2E_BACKEND'] === 'docker' ? 'docker' : 'process'

let built: Promise<void> | undefined

/** The image of the example game server is there. */
export function imageBuilt(): Promise<void> {
  return (built ??= buildExampleImage())
}

/** What a build names besides its command. */
export const imageOf = backend === 'docker' ? { image: exampleImage, imagePullPolicy: 'Never' } : {}

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

async function listAll(dataDir: string) {
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
