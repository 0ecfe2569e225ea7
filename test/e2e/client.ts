/** Calls the HTTP APIs and game servers with fetch and sockets. Checks each response against the OpenAPI document. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Allocation, BuildSpec, GameServer, GameServerBuild, GameServerDetail } from 'gamekeeper'
import { documented } from '../http/validated.js'
import { backend, imageOf, space } from './backend.js'
import type { Host } from './host.js'
import { StopWaiting } from './until.js'

export interface Answer<T> {
  readonly status: number
  readonly body: T
}

type Apis = Pick<Host, 'allocation' | 'management'>

/** Twice the maximum wait of an allocation. */
const callLimitMs = 120_000

async function call<T>(url: string, method = 'GET', body?: object): Promise<Answer<T>> {
  const signal = AbortSignal.timeout(callLimitMs)
  try {
    const response = await fetch(url, { method, signal, ...(body && { body: JSON.stringify(body) }) })
    const text = await response.text()
    const { status, headers } = response
    const path = url.slice(new URL(url).origin.length)
    const problem = documented({ method, path, status, headers: Object.fromEntries(headers), text })
    if (problem !== undefined) throw new StopWaiting(problem)
    return { status, body: JSON.parse(text) }
  } catch (error) {
    if (signal.aborted) throw new StopWaiting(`${method} ${url} got no response`, { cause: error })
    throw error
  }
}

export function allocate(
  host: Apis,
  request: { readonly buildID: string; readonly sessionID: string; readonly sessionCookie?: string },
  waitSeconds = 0,
): Promise<Answer<Allocation & { readonly error?: string }>> {
  return call(`${host.allocation}/api/v1/allocate?wait=${waitSeconds}`, 'POST', request)
}

const builds = (host: Apis) => `${host.management}/api/v1/gameserverbuilds`

export async function createBuild(host: Apis, build: BuildInput): Promise<GameServerBuild> {
  const metadata = space() === 'default' ? build.metadata : { ...build.metadata, namespace: space() }
  return good(await call<GameServerBuild>(builds(host), 'POST', { ...build, metadata }))
}

export async function getBuild(host: Apis, name: string): Promise<GameServerBuild> {
  return good(await call<GameServerBuild>(`${builds(host)}/${space()}/${name}`))
}

export async function listBuilds(host: Apis): Promise<readonly GameServerBuild[]> {
  return good(await call<readonly GameServerBuild[]>(builds(host)))
}

export async function deleteBuild(host: Apis, name: string): Promise<void> {
  good(await call(`${builds(host)}/${space()}/${name}`, 'DELETE'))
}

export async function detailOf(host: Apis, build: string): Promise<GameServerDetail> {
  return good(await call<GameServerDetail>(`${builds(host)}/${space()}/${build}/gameserverdetails`))
}

export async function listServers(host: Apis, build?: string): Promise<readonly GameServer[]> {
  const url =
    build === undefined ? `${host.management}/api/v1/gameservers` : `${builds(host)}/${space()}/${build}/gameservers`
  return good(await call<readonly GameServer[]>(url))
}

export function getServer(host: Apis, name: string): Promise<Answer<GameServer>> {
  return call(`${host.management}/api/v1/gameservers/${space()}/${name}`)
}

export function deleteServer(host: Apis, name: string): Promise<Answer<{ readonly message: string }>> {
  return call(`${host.management}/api/v1/gameservers/${space()}/${name}`, 'DELETE')
}

function good<T>({ status, body }: Answer<T>): T {
  if (status !== 200) throw new Error(`unexpected status ${status}: ${JSON.stringify(body)}`)
  return body
}

export interface BuildInput {
  readonly metadata: { readonly name: string }
  readonly spec: object
}

export interface BuildParameters {
  readonly name: string
  readonly buildID: string
  readonly standingBy: number
  readonly max: number
  readonly command?: readonly string[]
  readonly crashesToMarkUnhealthy?: number
  readonly health?: NonNullable<BuildSpec['health']>
  readonly scaling?: NonNullable<BuildSpec['scaling']>
  readonly ports?: readonly number[]
  readonly env?: Readonly<Record<string, string>>
}

/** A build of the example game server or of another command. */
export function buildOf({
  name,
  command = exampleGame,
  ports = [7777],
  env = {},
  health,
  ...spec
}: BuildParameters): BuildInput & { readonly spec: BuildSpec } {
  const containers = [
    {
      ...{ name: 'game', ...imageOf, command },
      env: Object.entries(env).map(([variable, value]) => ({ name: variable, value })),
      ports: ports.map((containerPort) => ({ name: 'game', containerPort })),
    },
  ]
  const template = { spec: { containers } }
  return { metadata: { name }, spec: { ...spec, portsToExpose: ports, template, health: { ...patience, ...health } } }
}

/** A machine that stands still for a while is no fault of a game. */
const patience = { silenceSeconds: 60, firstHeartbeatSeconds: 300, lateStartSeconds: 300 }

const program = 'examples/game-server/server.mjs'
const exampleGame = [
  'node',
  backend !== 'process' ? program : fileURLToPath(new URL(`../../${program}`, import.meta.url)),
]

/** The public port of `7777:10003`. */
export function portOf(ports: string): number {
  return Number(ports.split(':')[1])
}

/** Sends a line to a game server and resolves with its answer. */
export async function say(port: number, line: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', signal: AbortSignal.timeout(callLimitMs) })
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

/** Number of servers by state. */
export function recount(servers: readonly GameServer[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = { Pending: 0, Initializing: 0, StandingBy: 0, Active: 0, Terminating: 0 }
  for (const { status } of servers) counts[status.state] = (counts[status.state] ?? 0) + 1
  return counts
}

/** Number of servers that count towards `max`. */
export function liveOf(servers: readonly GameServer[]): number {
  return servers.filter(({ status }) => status.state !== 'Terminating').length
}
