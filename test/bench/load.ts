/** Generates load on an HTTP server in another process, over keep-alive connections with one request at a time on each. */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Cost } from './cost.js'

export interface Target {
  readonly host: string
  readonly port: number
}

/** Resolves to the response bodies. Rejects if a response status is not 200 or a connection closes early. */
export async function sendAll(
  target: Target,
  requests: readonly string[],
  connections = 32,
): Promise<readonly string[]> {
  const bodies: string[] = []
  let next = 0
  const sendOnConnection = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(target)
      let received = ''
      const send = () => {
        const request = requests[next++]
        if (request === undefined) {
          socket.destroy()
          resolve()
        } else socket.write(request)
      }
      socket.setNoDelay(true)
      socket.setEncoding('latin1')
      socket.on('connect', send)
      socket.on('error', reject)
      socket.on('close', () => reject(new Error('the server closed a connection')))
      socket.on('data', (text: string) => {
        received += text
        const body = bodyOf(received)
        if (body === undefined) return
        if (!received.startsWith('HTTP/1.1 200 ')) reject(new Error(`the server responded with: ${received}`))
        bodies.push(body)
        received = ''
        send()
      })
    })
  await Promise.all(Array.from({ length: connections }, sendOnConnection))
  return bodies
}

/** Returns the body of a response, or undefined if it is not complete yet. */
export function bodyOf(received: string): string | undefined {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const length = Number(/^content-length: (\d+)/im.exec(received)?.[1])
  const body = received.slice(headEnd + 4)
  return body.length >= length ? body : undefined
}

export function post(path: string, body: unknown): string {
  const text = JSON.stringify(body)
  const head = ['Host: 127.0.0.1', 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`]
  return `POST ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${text}`
}

export interface LoadedServer {
  target(): Promise<Target>
  /** CPU time of the server's main thread so far. */
  cpuUs(): Promise<number>
  collectYoungGarbage(): Promise<void>
}

/** Measures the cost of a request in the server process, excluding the load generator. */
export async function costOfRequests(
  server: LoadedServer,
  requests: readonly string[],
): Promise<Cost & { readonly bodies: readonly string[] }> {
  const target = await server.target()
  await server.collectYoungGarbage()
  const cpuBefore = await server.cpuUs()
  const wallBefore = performance.now()
  const bodies = await sendAll(target, requests)
  const wallUs = ((performance.now() - wallBefore) * 1_000) / requests.length
  const cpuUs = ((await server.cpuUs()) - cpuBefore) / requests.length
  return { wallUs, cpuUs, bodies }
}

/**
 * CPU time of this process's main thread so far, or of the whole process where the kernel does not report it. The main thread
 * limits how many requests a server can answer. Current as of the last time the thread waited for an event.
 */
export function mainThreadCpuUs(): number {
  try {
    const [nanoseconds] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')
    return Number(nanoseconds) / 1_000
  } catch {
    return ownCpuUs()
  }
}

export function ownCpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}
