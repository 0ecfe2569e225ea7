/** What callers whose id belongs to no server can make the agent do, over real sockets and with a real fleet. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { memoryBackend, type MemoryBackend } from '../../adapters/memory/index.js'
import { maxStrangerBytes, maxStrangers } from '../../src/agent/game-bodies.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { rawConnection, until } from '../http/client.js'
import { build, standingBy } from '../http/fleet.js'

let fleet: Fleet
let backend: MemoryBackend
let url: string
/** The ids of a server and of callers that are none. */
let known: string
let strangers: readonly string[]

beforeEach(async () => {
  const memory = memoryBackend({ clock: systemClock })
  backend = { ...memory, capabilities: { ...memory.capabilities, agent: true } }
  fleet = await createFleet({ backend, agent: { port: 0 } })
  url = `http://${fleet.agentAddress}`
  const { spec } = build({ standingBy: 1, max: 1 })
  await fleet.builds.create({ metadata: { name: 'arena' }, spec })
  await standingBy(fleet, 1)
  await fleet.allocate({ buildID: spec.buildID, sessionID: 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11' })
  const [server] = backend.servers()
  known = server?.spec.sdk.sessionHostId ?? ''
  strangers = [`${server?.ref.name}.${'0'.repeat(32)}`, `nobody-12345.${'0'.repeat(32)}`]
})
afterEach(() => fleet.close())

const head = (id: string, length: number) =>
  `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`

/** Sends a body of which only `sent` arrives. */
const beginning = (id: string, sent: string, length: number) => rawConnection(url, head(id, length) + sent)

async function answerTo(id: string, body: string): Promise<string> {
  const connection = beginning(id, body, body.length)
  const text = await connection.until(/\r\n\r\n.+/)
  connection.socket.destroy()
  return text.replace(/^Date: .*\r\n/m, '')
}

it.each([
  ['idle', '{"CurrentGameState":"StandingBy"}', /200 OK[^]*"operation":"Terminate"/],
  ['in a match', '{"CurrentGameState":"Active"}', /200 OK[^]*"operation":"Terminate"/],
  ['with many players', `{"currentGameState":"Active","x":"${'x'.repeat(50_000)}"}`, /200 OK[^]*"Terminate"/],
  ['idle, with many players', `{"CurrentGameState":"StandingBy","x":"${'x'.repeat(9_000)}"}`, /200 OK[^]*"Terminate"/],
  [
    'whose state comes too late',
    `{"x":"${'x'.repeat(9_000)}","CurrentGameState":"StandingBy"}`,
    /200 OK[^]*"Continue"/,
  ],
  ['not JSON', 'x', /400 Bad Request/],
  ['too large', 'x'.repeat(300_000), /413 /],
])('a wrong secret and an unknown server get the same answer: %s', async (_, body, expected) => {
  const answers = await Promise.all(strangers.map((id) => answerTo(id, body)))
  expect(answers[0]).toMatch(expected)
  expect(answers[1]).toBe(answers[0])
})

it('a long body is answered before it has arrived, unless its id belongs to a server', async () => {
  const start = `{"CurrentGameState":"Active","x":"${'x'.repeat(2 * maxStrangerBytes)}`
  const server = beginning(known, start, 100_000)
  for (const id of strangers) expect(await beginning(id, start, 100_000).until(/"operation":/)).toMatch(/ 200 OK/)
  expect(server.received()).toBe('')
  server.socket.write(`${'x'.repeat(100_000 - start.length - 2)}"}`)
  expect(await server.until(/"operation":/)).toMatch(/ 200 OK/)
  server.socket.destroy()
})

it('few bodies of strangers are read at once; further callers are answered at once, and a server still is heard', async () => {
  const [id = ''] = strangers
  const waiting = Array.from({ length: maxStrangers }, () => beginning(id, '{', 100))
  // Sent on connections of their own, so that the agent has read the others before.
  await until(async () => (await beginning(id, '{', 100).until(/./)).includes('Connection: close'))
  const refused = await Promise.all(Array.from({ length: 50 }, () => beginning(id, '{', 100).closed()))
  for (const text of refused) expect(text).toMatch(/ 200 OK[^]*"operation":"Continue"/)
  expect(await answerTo(known, '{"CurrentGameState":"Active"}')).toMatch(/"operation":"Continue".*"sessionConfig"/)
  for (const { socket } of waiting) socket.destroy()
  await until(async () => (await answerTo(id, '{"CurrentGameState":"StandingBy"}')).includes('Terminate'))
})

it('one server has at most four incomplete bodies; further ones are answered at once', async () => {
  const connections = Array.from({ length: 10 }, () => beginning(known, '{', 100))
  await until(() => connections.filter(({ received }) => received() !== '').length === 6)
  const answered = connections.filter(({ received }) => received() !== '')
  for (const { received } of answered) expect(received()).toMatch(/ 200 OK[^]*"operation":"Continue"/)
  for (const { socket } of connections) socket.destroy()
})
