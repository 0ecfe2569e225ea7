/** The connections to the host that leads. */
import { createServer, type Server } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import type { RequestListener } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { Connections } from '../../../src/fleet/leader-link.js'
import { sharedKeyServer } from '../../../src/platform/tls.js'
import { until } from './hosts.js'
import { openProxy } from './proxy.js'

const key = () => new Uint8Array(32)
const request = { method: 'GET', path: '/', headers: {}, body: undefined }

function opened() {
  const connections = new Connections(key, 120_000)
  onTestFinished(() => connections.close())
  return connections
}

async function addressOf(server: Server) {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('many calls at once connect a few at a time, and each gets its answer', async () => {
  const count = 200
  const answers: (() => void)[] = []
  const onRequest: RequestListener = (_, response) => {
    answers.push(() => response.writeHead(204).end())
    if (answers.length === count) for (const answer of answers) answer()
  }
  const server = createServer(sharedKeyServer(key), onRequest)
  const proxy = await openProxy()
  onTestFinished(() => proxy.close())
  const connections = opened()
  const { signal } = new AbortController()
  const all = Array.from({ length: count }, () => connections.send(proxy.address, request, signal))
  // The proxy accepts connections in order, and passes nothing on yet.
  const last = connect(Number(proxy.address.split(':')[1]), '127.0.0.1')
  onTestFinished(() => void last.destroy())
  await until(() => proxy.lastPort !== undefined && proxy.lastPort === last.localPort)
  expect(proxy.connections).toBe(64 + 1)
  proxy.target(Number((await addressOf(server)).split(':')[1]))
  const sent = await Promise.all(all)
  expect(sent.filter((one) => 'response' in one && one.response.status === 204)).toHaveLength(count)
})

it('a call that has not had its turn is given up with its caller', async () => {
  const server = createServer(sharedKeyServer(key))
  const sockets: { destroy(): void }[] = []
  // No handshake is answered.
  server.removeAllListeners('connection')
  server.on('connection', (socket) => sockets.push(socket))
  const address = await addressOf(server)
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
  const connections = opened()
  const gone = new AbortController()
  const all = Array.from({ length: 70 }, () => connections.send(address, request, gone.signal))
  await until(() => sockets.length > 0)
  gone.abort(new Error('gone'))
  for (const sent of await Promise.all(all)) expect(sent).toMatchObject({ failure: 'unsent' })
})
