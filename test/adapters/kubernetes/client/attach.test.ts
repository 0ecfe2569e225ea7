/** Lines for a container, and commands in it, through an API server that fails. */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { execInPod, writeStdin } from '../../../../adapters/kubernetes/pods/container-streams.js'
import type { ExecResult } from '../../../../src/contracts/backend.js'
import type { PodSnapshot } from '../../../../adapters/kubernetes/pods/pod-objects.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { apiOf, configFor } from '../support/fake-api-server.js'

const ref = { namespace: 'games', name: 'arena-aaaaa' }
const pod = { metadata: ref, spec: { containers: [{ name: 'log' }, { name: 'game', stdin: true }] } }

type Upgrade = (socket: Duplex, request: IncomingMessage) => void

/** A pod behind an API server that treats requests for a WebSocket like this. */
async function targetBehind(upgrade: Upgrade, timeoutMs = 60_000) {
  const server = createServer((_, response) => void response.end(JSON.stringify(pod)))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => upgrade(socket, request))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  // A TCP server has an address of this type.
  const { port } = server.address() as AddressInfo
  const api = apiOf(configFor(`http://127.0.0.1:${port}`))
  const instance = { ref, uid: 'u', phase: 'running', ports: [] }
  const snapshot = { identity: { ref, container: 'game' }, instance } as unknown as PodSnapshot
  return { api, clock: systemClock, timeoutMs, snapshot }
}

async function send(
  attach: Upgrade,
  { signal, timeoutMs }: { readonly signal?: AbortSignal; readonly timeoutMs?: number } = {},
): Promise<void> {
  await writeStdin(await targetBehind(attach, timeoutMs), 'say hello\n', signal ? { signal } : {})
}

async function exec(answer: Upgrade, input?: string): Promise<ExecResult> {
  return execInPod(await targetBehind(answer), ['sh', '-c', 'a b&c'], input === undefined ? {} : { input })
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

const output = (text: string) => frameOf(2, Buffer.from(`\u0001${text}`))
const exited = (code: number) =>
  status({
    status: 'Failure',
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
  })

it('asks for a command with its arguments, and gets its exit code and output, however the frames arrive', async () => {
  let asked: IncomingMessage | undefined
  const result = await exec((socket, request) => {
    asked = request
    socket.write(handshake)
    const all = Buffer.concat([output('starting\n'), output(`${'x'.repeat(200)}failed\n`), exited(3)])
    void (async () => {
      for (const byte of all) {
        socket.write(Buffer.from([byte]))
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
  })
  expect(result).toEqual({ exitCode: 3, output: `starting\n${'x'.repeat(200)}failed\n` })
  expect(asked?.url).toBe(
    '/api/v1/namespaces/games/pods/arena-aaaaa/exec?container=game&command=sh&command=-c&command=a%20b%26c&stdin=false&stdout=true&stderr=true',
  )
})

it('takes the refusal of a program that is not there for its exit code, and any other for none', async () => {
  const refuses = (message: string) =>
    exec((socket) => {
      socket.write(handshake)
      socket.write(status({ status: 'Failure', reason: 'InternalError', message }))
    })
  const missing = 'exec: "sh": executable file not found in $PATH'
  expect(await refuses(missing)).toEqual({ exitCode: 127, output: missing })
  await expect(refuses('the container is gone')).rejects.toMatchObject({
    code: 'unavailable',
    message: 'failed to run sh in pod arena-aaaaa: the container is gone',
  })
})

it('gives up a command that prints without an end, and loses one with its connection', async () => {
  let closed: Promise<unknown> = Promise.resolve()
  const endless = exec((socket) => {
    closed = new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
    socket.write(handshake)
    const part = output('y'.repeat(30_000))
    const write = () => {
      while (!socket.destroyed && socket.write(part)) continue
    }
    socket.on('drain', write)
    write()
  })
  await expect(endless).rejects.toMatchObject({ code: 'invalid', message: 'it has printed more than 1 MiB' })
  await closed
  const lost = exec((socket) => void socket.end(Buffer.concat([Buffer.from(handshake), output('starting')])))
  const message = 'failed to run sh in pod arena-aaaaa: the connection was lost'
  await expect(lost).rejects.toMatchObject({ code: 'unavailable', message })
})
