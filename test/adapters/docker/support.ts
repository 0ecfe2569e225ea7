/** Shared by the tests of the Docker backend: isolated fleets on the engine, specs, and the engine's own view. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type Docker from 'dockerode'
import { dockerBackend, type DockerBackendOptions } from '../../../adapters/docker/index.js'
import type { Backend, Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { portRanges } from '../port-ranges.js'
import { baseImage, docker } from './engine.js'

const cleanups: (() => Promise<void> | void)[] = []

/** Cleans up in reverse order. Call it in `afterEach`. */
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
}

export function onCleanUp(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup)
}

export function newFleetName(): string {
  return `test-${randomBytes(4).toString('hex')}`
}

/** Every container of this fleet, in any state. */
export function containersOf(fleet: string, engine: Docker = docker): Promise<Docker.ContainerInfo[]> {
  return engine.listContainers({ all: true, filters: { label: [`gamekeeper.fleet=${fleet}`] } })
}

export async function removeContainersOf(fleet: string, engine: Docker = docker): Promise<void> {
  for (const { Id } of await containersOf(fleet, engine)) {
    await engine
      .getContainer(Id)
      .remove({ force: true, v: true })
      // Already removed, or being removed.
      .catch(() => {})
  }
}

/** A temporary directory for one test. */
export async function freshDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-docker-'))
  onCleanUp(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
  return directory
}

/** A backend whose containers are removed after the test. */
export async function open(
  options: DockerBackendOptions = {},
  engine: Docker = docker,
): Promise<Backend & { fleet: string }> {
  const fleet = options.fleet ?? newFleetName()
  const directory = options.directory ?? (await freshDirectory())
  const backend = dockerBackend({ docker: engine, directory, portRange: nextRange(20), ...options, fleet })
  onCleanUp(async () => {
    await backend.close()
    await removeContainersOf(fleet, engine)
  })
  return Object.assign(backend, { fleet })
}

/** A port range that no other test uses now. */
export const nextRange = portRanges({ first: 10_000, last: 19_999 })

export interface SpecOptions {
  readonly name?: string
  readonly uid?: string
  readonly ports?: readonly number[]
  readonly container?: object
  readonly image?: string
  readonly heartbeatEndpoint?: string
}

let count = 0

/** A container that runs this shell script. */
export function specOf(script: string, options: SpecOptions = {}): InstanceSpec {
  const { name = `arena-${(++count).toString().padStart(5, '0')}`, uid = `uid-of-${name}`, ports = [] } = options
  return {
    ref: { namespace: 'default', name },
    uid,
    build: { namespace: 'default', name: 'arena', uid: 'uid-of-build', buildID: 'build-id' },
    template: {
      spec: {
        containers: [
          { name: 'game', image: options.image ?? baseImage, command: ['sh', '-c', script], ...options.container },
        ],
      },
    },
    portsToExpose: ports,
    sdk: {
      heartbeatEndpoint: options.heartbeatEndpoint ?? '127.0.0.1:56001',
      sessionHostId: `${name}.secret`,
      buildMetadata: { map: 'dust' },
    },
  }
}

export async function find(backend: Backend, spec: InstanceSpec): Promise<Instance | undefined> {
  return (await backend.list()).find(({ uid }) => uid === spec.uid)
}

/** The container of a server. */
export async function containerOf(
  fleet: string,
  spec: InstanceSpec,
  engine: Docker = docker,
): Promise<Docker.Container> {
  const found = (await containersOf(fleet, engine)).find(({ Labels }) => Labels['gamekeeper.uid'] === spec.uid)
  if (!found) throw new Error(`${spec.ref.name} has no container`)
  return engine.getContainer(found.Id)
}

export async function linesOf(lines: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = []
  for await (const line of lines) all.push(line)
  return all
}
