/** A proxy between one host and the API server that simulates an outage or a hang for that host. */
import { once } from 'node:events'
import { connect, createServer, isIP, type Socket } from 'node:net'
import type { KubeConfigLike } from '../../../../adapters/kubernetes/client/kube-config.js'

export type ProxyMode =
  | 'pass'
  /** Accepts data and forwards nothing, in both directions. */
  | 'stall'
  /** Breaks every connection and accepts no new ones. */
  | 'refuse'

export interface ApiProxy {
  readonly config: KubeConfigLike
  set(mode: ProxyMode): void
  close(): Promise<void>
}

export async function apiProxy(real: KubeConfigLike): Promise<ApiProxy> {
  const there = new URL(real.getCurrentCluster()?.server ?? 'none')
  const open = new Set<Socket>()
  let mode: ProxyMode = 'pass'
  const server = createServer((client) => {
    if (mode === 'refuse') return void client.destroy()
    const api = connect({ host: there.hostname, port: Number(there.port || 443) })
    for (const [from, to] of [
      [client, api],
      [api, client],
    ] as const) {
      open.add(from)
      from.on('data', (chunk) => mode === 'pass' && to.write(chunk))
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      // Broken on purpose, or by the peer.
      from.on('error', () => from.destroy())
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const cut = () => open.forEach((socket) => socket.destroy())
  return {
    config: {
      getCurrentCluster: () => ({ server: `https://127.0.0.1:${port}` }),
      getCurrentContext: () => real.getCurrentContext(),
      getContextObject: (name) => real.getContextObject(name),
      async applyToHTTPSOptions(options) {
        await real.applyToHTTPSOptions(options)
        if (isIP(there.hostname) === 0) options.servername ??= there.hostname
      },
    },
    set(next) {
      mode = next
      if (next === 'refuse') cut()
    },
    async close() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}
