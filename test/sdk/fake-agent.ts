/**
 * * An agent on a real socket that can misbehave: refuse, hang or send invalid answers. Records what it receives.
 * Also starts SDKs against it with short intervals, and stops them after the test.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { start, type Gsdk, type SdkTiming, type StartOptions } from 'gamekeeper/sdk'
import { sdkConfigFile, type SdkConfigInput } from '../../src/rules/game/sdk-config.js'
import { isObject } from '../../src/rules/validation/problem.js'

export interface Heard {
  readonly method: string
  readonly path: string
  readonly contentType: string
  readonly prefer: string | undefined
  readonly state: unknown
  readonly health: unknown
  readonly players: readonly unknown[]
  readonly body: unknown
  readonly atMs: number
}

export type Reply = (heard: Heard, response: ServerResponse, request: IncomingMessage) => void

export interface FakeAgent {
  readonly port: number
  readonly endpoint: string
  readonly beats: Heard[]
  readonly introductions: Heard[]
  /** Total connections, and the most that were open at once. */
  readonly seen: { connections: number; atOnce: number; mostAtOnce: number }
  /** Answers heartbeats. */
  reply: Reply
  /** Answers the SDK's introduction. */
  replyToIntroduction: Reply
  last(): Heard | undefined
  closeConnections(): void
  close(): Promise<void>
}

export const guid = '7a1c9a3e-3f0b-4f6e-9a44-0d8ce6f6d001'

export const sessionConfig = Object.freeze({
  sessionId: guid,
  sessionCookie: 'kö?,ki=1',
  initialPlayers: ['amie', 'bob'],
})

/** An answer of a fleet. */
export function says(operation: string, more: object = {}, intervalMs = 20): Reply {
  return (_heard, response) => sendJson(response, { operation, nextHeartbeatIntervalMs: intervalMs, ...more })
}

/** Like a fleet, answers Active to the first StandingBy heartbeat and includes the session from then on. */
export function allocates(intervalMs = 20): Reply {
  return (heard, response, request) => {
    const operation = heard.state === 'StandingBy' ? 'Active' : 'Continue'
    const known = heard.state === 'StandingBy' || heard.state === 'Active'
    says(operation, known ? { sessionConfig } : {}, intervalMs)(heard, response, request)
  }
}

export function sendJson(response: ServerResponse, value: unknown): void {
  const text = JSON.stringify(value)
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

export async function fakeAgent(port = 0): Promise<FakeAgent> {
  const seen = { connections: 0, atOnce: 0, mostAtOnce: 0 }
  const server = createServer((request, response) => void handle(request, response))
  server.on('connection', () => (seen.connections += 1))

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    seen.mostAtOnce = Math.max(seen.mostAtOnce, (seen.atOnce += 1))
    response.on('close', () => (seen.atOnce -= 1))
    let text = ''
    for await (const part of request) text += String(part)
    const heard = recordOf(request, text)
    if (heard.path.endsWith('/gsdkinfo')) {
      agent.introductions.push(heard)
      agent.replyToIntroduction(heard, response, request)
    } else {
      agent.beats.push(heard)
      agent.reply(heard, response, request)
    }
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const address = server.address()
  const bound = typeof address === 'object' && address !== null ? address.port : 0
  const agent: FakeAgent = {
    port: bound,
    endpoint: `127.0.0.1:${bound}`,
    beats: [],
    introductions: [],
    seen,
    reply: says('Continue'),
    replyToIntroduction: (_heard, response) => void response.writeHead(200).end(),
    last: () => agent.beats.at(-1),
    closeConnections: () => server.closeIdleConnections(),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  onTestFinished(() => agent.close())
  return agent
}

function recordOf(request: IncomingMessage, text: string): Heard {
  const body: unknown = text === '' ? undefined : JSON.parse(text)
  const fields = isObject(body) ? body : {}
  const list: unknown = fields['CurrentPlayers']
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    contentType: request.headers['content-type'] ?? '',
    prefer: request.headers['prefer']?.toString(),
    state: fields['CurrentGameState'],
    health: fields['CurrentGameHealth'],
    players: Array.isArray(list) ? list.map((player: unknown) => (isObject(player) ? player['PlayerId'] : player)) : [],
    body,
    atMs: performance.now(),
  }
}

/** Short intervals, and timeouts long enough for a busy machine. */
export const quick: SdkTiming = {
  heartbeatIntervalMs: 20,
  minHeartbeatIntervalMs: 10,
  maxHeartbeatIntervalMs: 30_000,
  requestTimeoutMs: 3_000,
  retryInitialMs: 20,
  retryMaxMs: 40,
  playersGapMs: 60,
}

export function recordingLogger() {
  return { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() }
}

/** A folder that is removed after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gamekeeper-sdk-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Writes a configuration file like a fleet; returns the environment that names it. */
export async function configuredFor(
  endpoint: string,
  more: Partial<SdkConfigInput> = {},
): Promise<{ readonly GSDK_CONFIG_FILE: string; readonly folder: string }> {
  const folder = await temporaryFolder()
  const path = join(folder, 'gsdkConfig.json')
  const content = sdkConfigFile({
    heartbeatEndpoint: endpoint,
    sessionHostId: 'arena-x7k2p.6f1c',
    buildMetadata: { map: 'dust' },
    buildID: guid,
    server: { namespace: 'default', name: 'arena-x7k2p' },
    node: 'node-1',
    instanceNumber: 2,
    platform: { titleId: 'A1B2C', region: 'westeurope', fullyQualifiedDomainName: 'node-1.example.com' },
    publicAddress: '203.0.113.9',
    ports: [{ name: 'game', listening: 7777, public: 10_003 }],
    folders: {
      logs: join(folder, 'GameLogs'),
      dumps: join(folder, 'GameLogs/Dumps'),
      certificates: join(folder, 'certs'),
      sharedContent: folder,
    },
    ...more,
  })
  await writeFile(path, JSON.stringify(content))
  return { GSDK_CONFIG_FILE: path, folder }
}

/** Starts an SDK against this agent. */
export async function startAgainst(agent: { readonly endpoint: string }, options: StartOptions = {}): Promise<Gsdk> {
  const env = await configuredFor(agent.endpoint)
  const gsdk = await start({
    env: { GSDK_CONFIG_FILE: env.GSDK_CONFIG_FILE },
    logger: recordingLogger(),
    ...options,
    timing: { ...quick, ...options.timing },
  })
  onTestFinished(() => gsdk.stop())
  return gsdk
}

/** Waits until the condition is true, at most 5 s. */
export function until(condition: () => boolean | undefined): Promise<void> {
  return vi.waitFor(
    () => {
      if (condition() !== true) throw new Error(`still not so after 60 s: ${condition.toString()}`)
    },
    { timeout: 60_000, interval: 5 },
  )
}
