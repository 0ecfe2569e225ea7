/** A minimal registry on loopback with one image. It can be slow, and can reject requests. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { tarOf } from '../../../adapters/docker/container-config.js'

export interface Registry {
  readonly image: string
  /** Returned instead of the manifest. */
  refusal: { readonly status: number; readonly message: string } | undefined
  /** Stalls the layer download after its first part. */
  slow: boolean
  /** How often the layer was requested. */
  layersServed(): number
  /** The `Authorization` header of the last request for the manifest. */
  authorization(): string | undefined
  /** When set, the registry requires these credentials. */
  password: { readonly username: string; readonly password: string } | undefined
  close(): Promise<void>
}

const schema = 'application/vnd.docker.distribution.manifest.v2+json'
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

export async function startRegistry(): Promise<Registry> {
  const file = { name: 'data', mode: 0o644, content: randomBytes(1_500_000).toString('hex') }
  const plain = tarOf([file], 0)
  const layer = gzipSync(plain)
  const config = Buffer.from(
    JSON.stringify({
      architecture: architectures[process.arch] ?? process.arch,
      os: 'linux',
      config: {},
      rootfs: { type: 'layers', diff_ids: [digestOf(plain)] },
    }),
  )
  const part = (mediaType: string, bytes: Buffer) => ({
    mediaType: `application/vnd.docker.${mediaType}`,
    size: bytes.length,
    digest: digestOf(bytes),
  })
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: schema,
      config: part('container.image.v1+json', config),
      layers: [part('image.rootfs.diff.tar.gzip', layer)],
    }),
  )
  let served = 0
  let authorization: string | undefined
  let held: (() => void)[] = []
  let slow = false

  const server = createServer((request, response) => {
    const path = request.url ?? ''
    const { refusal, password } = registry
    if (password) {
      const wanted = `Basic ${Buffer.from(`${password.username}:${password.password}`).toString('base64')}`
      if (request.headers.authorization !== wanted) {
        response.setHeader('WWW-Authenticate', 'Basic realm="the test registry"')
        return json(response, 401, { errors: [{ code: 'UNAUTHORIZED', message: 'authentication required' }] })
      }
    }
    if (path === '/v2/') return json(response, 200, {})
    if (path.includes('/manifests/')) {
      authorization = request.headers.authorization
      if (refusal) return json(response, refusal.status, { errors: [{ code: 'DENIED', message: refusal.message }] })
      response.writeHead(200, {
        'Content-Type': schema,
        'Content-Length': manifest.length,
        'Docker-Content-Digest': digestOf(manifest),
      })
      return response.end(request.method === 'HEAD' ? undefined : manifest)
    }
    if (path.endsWith(digestOf(config))) return response.end(config)
    if (path.endsWith(digestOf(layer))) {
      served++
      response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': layer.length })
      if (!slow) return response.end(layer)
      const half = Math.floor(layer.length / 2)
      response.write(layer.subarray(0, half))
      return held.push(() => response.end(layer.subarray(half)))
    }
    return json(response, 404, { errors: [{ code: 'NOT_FOUND', message: 'no such thing' }] })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const registry: Registry = {
    image: `127.0.0.1:${port}/studio/arena-${randomBytes(3).toString('hex')}:1`,
    refusal: undefined,
    password: undefined,
    get slow() {
      return slow
    },
    set slow(next) {
      slow = next
      if (next) return
      for (const release of held) release()
      held = []
    },
    layersServed: () => served,
    authorization: () => authorization,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return registry
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(body))
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
