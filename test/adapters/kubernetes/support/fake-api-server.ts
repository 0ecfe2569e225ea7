/** An HTTP server that stands in for an API server, to reproduce rare behaviour. Each test defines the responses. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import type { KubeConfigLike } from '../../../../adapters/kubernetes/client/kube-config.js'
import { systemClock } from '../../../../src/contracts/clock.js'

export type Answer = (request: IncomingMessage, response: ServerResponse, url: URL) => void

export interface FakeApiServer {
  readonly url: string
  /** `GET /path?query` of each request. */
  readonly requests: string[]
  /** Breaks all connections, like a restart. */
  cutAll(): void
  answer: Answer
}

export async function fakeApiServer(answer: Answer): Promise<FakeApiServer> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    fake.answer(request, response, new URL(request.url ?? '/', 'http://fake'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  // A TCP server has an address of this type.
  const { port } = server.address() as AddressInfo
  const fake: FakeApiServer = {
    url: `http://127.0.0.1:${port}`,
    requests,
    cutAll: () => server.closeAllConnections(),
    answer,
  }
  return fake
}

/** Each use of the credentials takes the next of `tokens`; the last one repeats. */
export function configFor(server: string, tokens: readonly string[] = ['token']): KubeConfigLike & { uses: number } {
  return {
    uses: 0,
    getCurrentCluster: () => ({ server }),
    getCurrentContext: () => 'test',
    getContextObject: () => ({ namespace: 'games' }),
    applyToHTTPSOptions(options) {
      const token = tokens[Math.min(this.uses, tokens.length - 1)]
      this.uses++
      options.headers = { ...Object(options.headers), Authorization: `Bearer ${token}` }
      return Promise.resolve()
    },
  }
}

export function apiOf(
  config: KubeConfigLike,
  limits: Partial<ConstructorParameters<typeof KubernetesApi>[0]> = {},
): KubernetesApi {
  const defaults = { requestsPerSecond: 1_000, connections: 8, callTimeoutMs: 5_000, clock: systemClock }
  const api = new KubernetesApi({ config, ...defaults, ...limits })
  onTestFinished(() => api.close())
  return api
}

export function respond(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** The key Secret that every store reads when it opens. */
export function respondWithKey(response: ServerResponse): void {
  const data = { key: Buffer.alloc(32, 7).toString('base64') }
  respond(response, 200, { metadata: { name: 'gamekeeper-key', resourceVersion: '1' }, data })
}

export function statusOf(code: number, reason: string, name?: string) {
  return { kind: 'Status', code, reason, message: `${reason} indeed`, ...(name !== undefined && { details: { name } }) }
}
