/** Connections that cost the host more than they cost the caller. */
import { rawConnection } from '../../../http/client.js'
import { type Abuse, attempt, rawRequest, tokens } from '../target.js'

/** Hundreds of event readers from the first event on, of which half read nothing. */
export const eventReaders: Abuse = {
  name: 'event readers',
  async run({ apis }) {
    const request = rawRequest('GET', '/api/v1/events?from=1')
    const readers = Array.from({ length: 300 }, (_, index) => {
      const reader = rawConnection(apis.management, request)
      if (index % 2 === 0) reader.socket.pause()
      return reader
    })
    await Promise.allSettled(readers.filter((_, index) => index % 2 === 1).map((reader) => reader.until(/\r\n\r\n/)))
    for (const { socket } of readers) socket.destroy()
  },
}

/** Heartbeats for servers that do not exist, and for known names with wrong secrets; many never finish their body. */
export const wrongSecrets: Abuse = {
  name: 'wrong secrets',
  async run({ apis }) {
    const connections = Array.from({ length: 300 }, (_, index) => {
      const id = index % 2 === 0 ? `live-abcde.${'0'.repeat(20)}` : `x.${'%00'.repeat(index)}`
      const length = index % 3 === 0 ? 40 : 250_000
      const head = `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`
      return rawConnection(
        apis.agent,
        `${head}{"CurrentGameState":"Active","x":"${'y'.repeat(Math.min(length, 100_000))}`,
      )
    })
    await Promise.allSettled(connections.slice(0, 20).map((connection) => connection.until(/HTTP\/1\.1/)))
    for (const { socket } of connections) socket.destroy()
  },
}

/** Requests without a valid token, far more than the rate limit allows. */
export const tokenGuesses: Abuse = {
  name: 'token guesses',
  async run(target) {
    const url = `${target.apis.management}/api/v1/gameserverbuilds`
    for (let batch = 0; batch < 10; batch++) {
      const statuses = await Promise.all(
        Array.from({ length: 100 }, async (_, index) => {
          const token = `${tokens.abuser.slice(0, 20)}${batch}-${index}`
          return (await attempt(target, 'a guess', 'GET', url, { token })).status
        }),
      )
      const odd = statuses.filter((status) => status !== 401 && status !== 429)
      if (odd.length > 0) target.violate(`a request with a wrong token got ${odd[0]}`)
    }
  },
}

/** Requests that arrive byte by byte, or never end. */
export const slowRequests: Abuse = {
  name: 'slow requests',
  async run({ apis }) {
    const connections = [apis.allocation, apis.management, apis.agent].flatMap((url) =>
      Array.from({ length: 100 }, () => rawConnection(url, 'POST /api/v1/allocate HTTP/1.1\r\nHost: a\r\nX-Slow: ')),
    )
    for (let byte = 0; byte < 10; byte++) {
      await Promise.all(connections.map(({ socket }) => new Promise((resolve) => socket.write('x', resolve))))
    }
    for (const { socket } of connections) socket.destroy()
  },
}
