/** A proxy in front of an engine's socket that can make the engine appear to hang or to be down. */
import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'

export type ProxyMode =
  | 'pass'
  /** Accepts data but forwards none, even on open connections. */
  | 'stall'
  /** Closes every connection. */
  | 'refuse'

export interface Proxy {
  readonly docker: Docker
  mode: ProxyMode
  /** Requests since the last call. */
  requests(): readonly string[]
  /** Closes open connections and accepts new ones. */
  breakAll(): void
  close(): Promise<void>
}

export async function proxyTo(socketPath: string): Promise<Proxy> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-proxy-'))
  const path = join(directory, 'proxy.sock')
  const open = new Set<Socket>()
  let mode: ProxyMode = 'pass'
  let requests: string[] = []
  const breakAll = () => {
    for (const socket of open) socket.destroy()
  }
  const server = createServer((client) => {
    if (mode === 'refuse') return client.destroy()
    const engine = connect(socketPath)
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      open.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.on('data', (chunk: Buffer) => {
        const line = /^(?:GET|POST|PUT|DELETE|HEAD) \S+/.exec(chunk.toString('latin1'))?.[0]
        if (from === client && line) requests.push(line)
        // Data is not queued: by the time it could be forwarded, the client has given up.
        if (mode === 'pass') to.write(chunk)
      })
    }
    return undefined
  })
  server.listen(path)
  await once(server, 'listening')
  return {
    docker: new Docker({ socketPath: path }),
    get mode() {
      return mode
    },
    set mode(next) {
      mode = next
      if (next === 'refuse') breakAll()
    },
    requests() {
      const received = requests
      requests = []
      return received
    },
    breakAll,
    async close() {
      breakAll()
      server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
