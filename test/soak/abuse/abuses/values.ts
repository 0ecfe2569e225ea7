/** Values and paths that break parsers, shells, file names and logs. */
import { randomUUID } from 'node:crypto'
import { rawConnection } from '../../../http/client.js'
import { until } from '../../../e2e/until.js'
import { type Abuse, attempt, preyBuild, rawRequest, type Target } from '../target.js'

const huge = 'x'.repeat(400_000)
const expansions = Array.from({ length: 22 }, (_, i) => ({ name: `A${i + 1}`, value: `$(A${i})$(A${i})` }))

/** Templates with huge arguments, expanding variables, and characters that processes and file names cannot have. */
const containers: readonly object[] = [
  { command: ['sleep', '60'], args: [huge] },
  { command: ['sleep', '60'], args: ['$(A)'.repeat(100_000)] },
  { command: ['sleep', '60'], env: [{ name: 'A0', value: 'x'.repeat(100) }, ...expansions] },
  { command: ['sleep\0', '60'] },
  { command: ['sleep', '60'], env: [{ name: 'LD_PRELOAD=/x\0', value: '\u0000' }] },
  { command: ['-rf', '--', '$(reboot)'], workingDir: '../../..' },
  { command: ['sleep', '60'], env: [{ name: '__proto__', value: huge }] },
]

export const hostileBuilds: Abuse = {
  name: 'hostile builds',
  async run(target) {
    const builds = `${target.apis.management}/api/v1/gameserverbuilds`
    for (const [index, container] of containers.entries()) {
      const name = `hostile-${index}`
      const template = { spec: { containers: [{ name: 'game', ...container }] } }
      const spec = { buildID: randomUUID(), standingBy: 1, max: 1, portsToExpose: [], template }
      const body = JSON.stringify({ metadata: { name }, spec })
      const { status } = await attempt(target, `hostile build ${index}`, 'POST', builds, { body })
      if (status === 200) await attempt(target, 'its deletion', 'DELETE', `${builds}/default/${name}`)
    }
  },
}

export const hugeAllocations: Abuse = {
  name: 'huge allocations',
  async run(target) {
    const url = `${target.apis.allocation}/api/v1/allocate`
    const values: readonly object[] = [
      { sessionCookie: 'é'.repeat(500_000) },
      { sessionCookie: '\u0000\u009b' },
      { initialPlayers: Array.from({ length: 20_000 }, (_, i) => `player-${i}`) },
      { initialPlayers: ['x'.repeat(900_000)] },
    ]
    for (const more of values) {
      const body = JSON.stringify({ buildID: preyBuild.buildID, sessionID: randomUUID(), ...more })
      await attempt(target, 'a huge allocation', 'POST', url, { body })
    }
    await attempt(target, 'deep JSON', 'POST', url, { body: '['.repeat(400_000) })
  },
}

const paths = [
  ...[
    '/%61pi/v1/gameserverbuilds',
    '/api/./v1/gameserverbuilds',
    '/x/../api/v1/gameserverbuilds',
    '/api%2fv1/allocate',
  ],
  ...[
    'http://127.0.0.1/api/v1/gameserverbuilds',
    '//api/v1/gameserverbuilds',
    '/v1/%73essionHosts/x',
    '/v1/../metrics',
  ],
]

/** Pipelined requests for encoded paths, dot segments and absolute-form targets: none may reach an operation. */
export const hostilePaths: Abuse = {
  name: 'hostile paths',
  async run(target) {
    const { allocation, management, agent } = target.apis
    await Promise.all([allocation, management, agent].map((url) => onlyRefused(target, url)))
  },
}

async function onlyRefused(target: Target, url: string): Promise<void> {
  const requests = paths.map((path) => rawRequest('GET', path))
  const last = rawRequest('GET', '/nothing', '', 'Connection: close\r\n')
  const connection = rawConnection(url, requests.join('') + last)
  await until('all paths are answered', () => connection.socket.closed)
  const received = connection.received()
  const statuses = [...received.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status))
  const odd = statuses.filter((status) => status < 400 || status >= 500)
  if (odd.length > 0) target.violate(`a path that is not a route got ${odd[0]} from ${url}`)
}
