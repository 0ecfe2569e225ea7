/** Lines for a container through an API server that fails. */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { writeStdin } from '../../../../adapters/kubernetes/pods/container-streams.js'
import type { PodSnapshot } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

const ref = { namespace: 'games', name: 'arena-aaaaa' }
const pod = { metadata: ref, spec: { containers: [{ name: 'log' }, { name: 'game', stdin: true }] } }

/** Sends a line through an API server that treats the request to attach like this. */
async function send(
  attach: (socket: Duplex, request: IncomingMessage) => void,
  { signal, timeoutMs = 60_000 }: { readonly signal?: AbortSignal; readonly timeoutMs?: number } = {},
): Promise<void> {
  const server = createServer((_, response) => void response.end(JSON.stringify(pod)))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => attach(socket, request))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  // A TCP server has an address of this type.
  const { port } = server.address() as AddressInfo
  const api = apiOf(configFor(`http://127.0.0.1:${port}`))
  const instance = { ref, uid: 'u', phase: 'running', ports: [] }
  const snapshot = { identity: { ref, container: 'game' }, instance } as unknown as PodSnapshot
  const target = { api, clock: systemClock, timeoutMs, snapshot }
  await writeStdin(target, 'say hello\n', signal ? { signal } : {})
}

const handshake = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const frameOf = (opcode: number, payload: Buffer) => {
  const { length } = payload
  const size = length < 126 ? [length] : [126, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([0x80 | opcode, ...size]), payload])
}
const status = (body: object) => frameOf(2, Buffer.concat([Buffer.from([3]), Buffer.from(JSON.stringify(body))]))
const failure = { status: 'Failure', message: `container "game" is not running${'!'.repeat(200)}` }

it('asks for the standard input of the game’s container only', async () => {
  let asked: IncomingMessage | undefined
  await send((socket, request) => {
    asked = request
    socket.write(Buffer.concat([Buffer.from(handshake), frameOf(2, Buffer.from([3])), status({ status: 'Success' })]))
    // 1000, the code of a normal end, begins with the byte 3.
    socket.end(frameOf(8, Buffer.from([3, 232])))
  })
  expect(asked?.url).toBe('/api/v1/namespaces/games/pods/arena-aaaaa/attach?container=game&stdin=true')
  expect(asked?.headers).toMatchObject({ authorization: 'Bearer token', 'sec-websocket-protocol': 'v4.channel.k8s.io' })
})

it('fails with the reason that the container could not be attached to', async () => {
  const failing = send((socket) => {
    socket.write(handshake)
    socket.end(status(failure))
  })
  const message = `failed to send a line to pod arena-aaaaa: ${failure.message}`
  await expect(failing).rejects.toMatchObject({ code: 'unavailable', message })
})

it('fails with the answer of a server that refuses', async () => {
  const forbidden = send((socket) => {
    const body = JSON.stringify({ kind: 'Status', code: 403, message: 'cannot get resource "pods/attach"' })
    socket.end(`HTTP/1.1 403 Forbidden\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  })
  const message = expect.stringContaining('cannot get resource "pods/attach"')
  await expect(forbidden).rejects.toMatchObject({ code: 'unavailable', message })
})

it('gives up on a server that does not end, and leaves no connection', async () => {
  let ended: Promise<unknown> = Promise.resolve()
  const attach = (socket: Duplex) => {
    ended = new Promise((resolve) => socket.resume().once('end', resolve))
    socket.write(handshake)
  }
  const endless = send(attach, { timeoutMs: 500 })
  const message = 'send a line to pod arena-aaaaa timed out after 0.5 s'
  await expect(endless).rejects.toMatchObject({ code: 'unavailable', message })
  await ended
})

it('fails if the connection breaks, or the signal fires', async () => {
  const broken = send((socket) => {
    socket.write(handshake)
    socket.once('data', () => socket.end())
  })
  const message = 'failed to send a line to pod arena-aaaaa: the connection was lost'
  await expect(broken).rejects.toMatchObject({ code: 'unavailable', message })
  const stop = new AbortController()
  const attach = (socket: Duplex) => {
    socket.resume().write(handshake)
    socket.once('data', () => stop.abort())
  }
  const aborted = send(attach, stop)
  await expect(aborted).rejects.toMatchObject({ code: 'aborted' })
})
