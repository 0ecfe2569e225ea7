/** A proxy between a fleet and the API server that records the requests. */
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { KubeConfigLike } from '../../../../adapters/kubernetes/client/kube-config.js'

export interface CountingProxy {
  /** For the recorded fleet. */
  readonly config: KubeConfigLike
  /** Method and path of each request, including watches. */
  readonly requests: readonly string[]
  close(): Promise<void>
}

export async function countingProxy(real: KubeConfigLike): Promise<CountingProxy> {
  const options: https.RequestOptions = {}
  await real.applyToHTTPSOptions(options)
  const { hostname, port } = new URL(real.getCurrentCluster()?.server ?? 'none')
  const agent = new https.Agent({ keepAlive: true, ...(options.ca !== undefined && { ca: options.ca }) })
  const credentials = Object.entries(options.headers ?? {})
  const requests: string[] = []
  const server = http.createServer((request, response) => {
    const { method = '', url = '' } = request
    requests.push(`${method} ${url}`)
    const headers = Object.fromEntries([...credentials, ...Object.entries(request.headers)])
    const onward = https.request({ ...options, agent, hostname, port, path: url, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const at = typeof address === 'object' && address ? address.port : 0
  return {
    requests,
    config: {
      getCurrentCluster: () => ({ server: `http://127.0.0.1:${at}` }),
      getCurrentContext: () => 'counted',
      getContextObject: () => null,
      applyToHTTPSOptions: async () => {},
    },
    async close() {
      agent.destroy()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
