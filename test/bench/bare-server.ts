/** The baseline for the HTTP rows: a `node:http` route that parses the body and returns the same JSON as the fleet. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { ownCpuUs, type Target } from './load.js'

const answers = {
  allocation: ({ sessionID }: { readonly sessionID?: string }) => ({
    IPV4Address: '127.0.0.1',
    Ports: '7777:10000',
    SessionID: sessionID,
  }),
  heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }),
}

export async function open({ kind }: { kind: keyof typeof answers }) {
  const answer = answers[kind]
  // The same timeout as in `serve`. Node's default would close idle connections between two rounds.
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = JSON.stringify(answer(JSON.parse(Buffer.concat(chunks).toString())))
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
      response.end(body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    target: (): Target => ({ host: '127.0.0.1', port }),
    cpuUs: ownCpuUs,
  }
}

export const bareServerFile = import.meta.url
