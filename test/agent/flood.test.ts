/** Floods of pipelined heartbeats over real sockets, by strangers and by a game: the heartbeats of the other games come first. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Agent, startAgent } from '../../src/agent/index.js'
import { call, until } from '../http/client.js'
import { targetOf } from './target.js'

const limitMs = 60_000
vi.setConfig({ testTimeout: 60_000 })

const game = 'arena-11111.1111'
const greedy = 'arena-22222.2222'
const stranger = 'arena-33333.3333'
const beat = JSON.stringify({ CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy' })

let heard: string[]
let agent: Agent
let sockets: Socket[]

beforeEach(async () => {
  heard = []
  sockets = []
  const target = targetOf({
    heartbeat(id: string) {
      heard.push(id)
      return { operation: 'Continue' as const, nextHeartbeatIntervalMs: 1_000 }
    },
    knowsServer: (id: string) => id === game || id === greedy,
  })
  agent = await startAgent({ target, port: 0 })
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  await agent.close()
})

const path = (id: string) => `/v1/sessionHosts/${id}`
const request = (id: string) => `PATCH ${path(id)} HTTP/1.1\r\nHost: a\r\nContent-Length: ${beat.length}\r\n\r\n${beat}`

async function connected(count: number): Promise<Socket[]> {
  const opened = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(agent.port, agent.host).on('error', () => {})
      sockets.push(socket)
      await once(socket, 'connect')
      return socket.resume()
    }),
  )
  // Connections are accepted in order, so once a later one is answered, the agent has accepted these.
  await call('GET', `http://${agent.host}:${agent.port}/`)
  return opened
}

it.each([
  ['a stranger', stranger],
  ['a game', greedy],
])('%s that pipelines thousands of heartbeats is disconnected after a few', async (_, id) => {
  const attackers = await connected(20)
  const flood = request(id).repeat(2_000)
  for (const socket of attackers) socket.write(flood)
  await until(() => attackers.every(({ destroyed }) => destroyed), limitMs)
  expect(heard.length).toBeLessThanOrEqual(20 * 16)
  expect((await call('PATCH', `http://${agent.host}:${agent.port}${path(game)}`, { body: beat })).status).toBe(200)
})

it('a flood of other requests is cut, too', async () => {
  const [attacker] = await connected(1)
  attacker?.write(
    `POST /v1/metrics/${stranger}/gsdkinfo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`.repeat(2_000),
  )
  await until(() => attacker?.destroyed === true, limitMs)
})

it.each([
  ['strangers', stranger],
  ['another game', greedy],
])('the heartbeats of 40 connections of %s do not come before that of a game', async (_, id) => {
  const attackers = await connected(40)
  const [own] = await connected(1)
  for (const socket of attackers) socket.write(request(id).repeat(10))
  own?.write(request(game))
  await until(() => heard.length === 40 * 10 + 1, limitMs)
  expect(heard.indexOf(game)).toBeLessThan(40)
})

it('a client that waits for no answer gets all of them, in order', async () => {
  const [own] = await connected(1)
  let text = ''
  own?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  own?.write(Array.from({ length: 10 }, (_, i) => request(i % 2 === 0 ? greedy : stranger)).join(''))
  await until(() => text.split('HTTP/1.1 200 OK').length === 11, limitMs)
  expect(heard.filter((id) => id === greedy)).toHaveLength(5)
})
