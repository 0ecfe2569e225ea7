/** Shared by the tests of the Kubernetes backend: separate fleets on one cluster, specs, and calls to games. */
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type KubernetesBackendOptions, kubernetesBackend } from 'gamekeeper/kubernetes'
import type { Backend, Instance, InstanceSpec } from '../../../../src/contracts/backend.js'
import { portRanges } from '../../port-ranges.js'

/** An image with a shell and Node.js that is present on the nodes. */
export const baseImage = 'node:20-slim'

/** A port range that no other test uses now. */
export const nextRange = portRanges({ first: 21_400, last: 25_999 })

/** A unique API group, which keeps fleets apart. */
export function newGroup(): string {
  return `t${randomBytes(4).toString('hex')}.gamekeeper.test`
}

export interface OpenedBackend extends Backend {
  readonly apiGroup: string
  logs: NonNullable<Backend['logs']>
  protect: NonNullable<Backend['protect']>
}

const opened = new Set<Backend>()

/** After all tests of a file, since they run concurrently. Their pods are deleted with the namespace. */
export async function closeAll(): Promise<void> {
  await Promise.all([...opened].map((backend) => backend.close()))
}

export function open(namespace: string, options: KubernetesBackendOptions = {}): OpenedBackend {
  const apiGroup = options.apiGroup ?? newGroup()
  const backend = kubernetesBackend({
    namespaces: [namespace],
    portRange: nextRange(10),
    leaseMs: 15_000,
    ...options,
    apiGroup,
  })
  opened.add(backend)
  const { logs, protect } = backend
  if (!logs || !protect) throw new Error('the backend lacks logs or protect')
  return Object.assign(backend, { apiGroup, logs, protect })
}

export interface SpecOptions {
  readonly ports?: readonly number[]
  readonly container?: object
  readonly pod?: object
  readonly metadata?: object
}

/** A pod that runs this shell script. */
export function specOf(namespace: string, script: string, options: SpecOptions = {}): InstanceSpec {
  const name = `arena-${randomBytes(3).toString('hex')}`
  const game = { name: 'game', image: baseImage, imagePullPolicy: 'Never', command: ['sh', '-c', script] }
  return {
    ref: { namespace, name },
    uid: `uid-of-${name}`,
    build: { namespace, name: 'arena', uid: 'uid-of-build', buildID: 'build-id' },
    template: {
      ...(options.metadata && { metadata: options.metadata }),
      spec: { containers: [{ ...game, ...options.container }], ...options.pod },
    },
    portsToExpose: options.ports ?? [],
    sdk: {
      heartbeatEndpoint: '127.0.0.1:56001',
      sessionHostId: `${name}.secret`,
      buildMetadata: { map: 'dust' },
    },
  }
}

export async function find(backend: Backend, spec: InstanceSpec): Promise<Instance | undefined> {
  return (await backend.list()).find(({ uid }) => uid === spec.uid)
}

export async function linesOf(lines: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = []
  for await (const line of lines) all.push(line)
  return all
}

const answerMs = 10_000

/** The game's response to a line sent over TCP. */
export async function sayTcp(host: string, port: number, line: string): Promise<string> {
  const socket = connect({ port, host, signal: AbortSignal.timeout(answerMs) })
  try {
    let text = ''
    socket.setEncoding('utf8').on('data', (part) => (text += String(part)))
    await once(socket, 'connect')
    socket.end(`${line}\n`)
    await once(socket, 'end')
    return text.trim()
  } finally {
    socket.destroy()
  }
}

/** The game's response to a line sent over UDP. */
export async function sayUdp(host: string, port: number, line: string): Promise<string> {
  const socket = createSocket('udp4')
  try {
    const answer = once(socket, 'message', { signal: AbortSignal.timeout(answerMs) })
    socket.send(`${line}\n`, port, host)
    return String((await answer)[0]).trim()
  } finally {
    socket.close()
  }
}
