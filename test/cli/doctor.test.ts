/** `gamekeeper doctor`: real ports and directories, and a cluster whose answers this test gives. */
import { createServer as createHttpServer, type Server } from 'node:http'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { rightsOf, skewFinding } from '../../src/cli/commands/doctor.js'
import { read } from '../package/sources.js'
import { cli, emptyDirectory } from './cli.js'

const free = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', PORT_RANGE: '30300-30309' }

it('finds nothing on a machine that has what a server needs', async () => {
  const cwd = await emptyDirectory()
  const { code, stdout } = await cli(['doctor'], { cwd, env: free })
  expect(
    stdout
      .trimEnd()
      .split('\n')
      .filter((line) => !line.startsWith('ok ')),
  ).toEqual([])
  expect(stdout).toMatch(/ok {3}DATA_DIR .*: writable, \d+ MiB free/)
  expect(stdout).toContain('ok   PORT_RANGE 30300-30309: 10 ports')
  expect(stdout).toMatch(/ok {3}agent: games reach 127\.0\.0\.1:\d+/)
  expect(stdout).toMatch(
    /ok {3}ISOLATION none: games run as the user of the host.*; (--isolation user works here|user: )/,
  )
  expect(stdout).toMatch(/; (--isolation systemd works here|systemd: )/)
  expect(stdout).toMatch(/ok {3}memory of games: (per server, by cgroup v[12]\n|.*; to mend: run as root)/)
  expect(stdout).toMatch(/ok {3}tasks of games: (per server, by cgroup v[12]\n|.*; to mend: run as root)/)
  expect(stdout).toContain('ok   restarts: games survive those by this process manager')
  expect(code).toBe(0)
})

it('says that games cannot run as the chosen user, and which isolation works', async () => {
  const cwd = await emptyDirectory()
  const { code, stdout } = await cli(['doctor'], { cwd, env: { ...free, RUN_AS: 'no-such-user' } })
  expect(stdout).toMatch(/FAIL ISOLATION none: RUN_AS cannot be used here: .+; (--isolation user works here|user: )/)
  expect(code).toBe(1)
})

it('says which port, directory or engine cannot be used, and how to mend it', { timeout: 300_000 }, async () => {
  const cwd = await emptyDirectory()
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const address = other.address()
  const port = typeof address === 'object' && address !== null ? String(address.port) : ''
  await writeFile(join(cwd, 'file'), '')
  const env = {
    ...free,
    ALLOCATION_PORT: port,
    DATA_DIR: 'file/data',
    BACKEND: 'docker',
    DOCKER_HOST: 'tcp://127.0.0.1:1',
  }
  const { code, stdout } = await cli(['doctor', '--json'], { cwd, env })
  const findings: { check: string; ok: boolean; message: string }[] = JSON.parse(stdout)
  const failed = findings.filter(({ ok }) => !ok).map(({ check, message }) => `${check}: ${message}`)
  expect(failed).toEqual([
    `ALLOCATION_PORT ${port}: in use on 127.0.0.1, perhaps by a running gamekeeper; choose another with --allocation-port`,
    expect.stringMatching(/^DATA_DIR .*file\/data: ENOTDIR.*--data-dir$/),
    expect.stringMatching(/^Docker: .*127\.0\.0\.1:1.*; start Docker, set DOCKER_HOST/),
  ])
  expect(code).toBe(1)
})

it('says that games cannot reach the agent at AGENT_ADDRESS', async () => {
  const cwd = await emptyDirectory()
  const { code, stdout } = await cli(['doctor'], { cwd, env: { ...free, AGENT_ADDRESS: '127.0.0.1:1' } })
  expect(stdout).toMatch(
    /\nFAIL agent: games cannot reach 127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1; set --agent-address to /,
  )
  expect(code).toBe(1)
})

/** An API server that lists no pods, denies `denied`, and whose clock is off. Returns the path of its kubeconfig. */
async function cluster(cwd: string, denied: readonly string[], skewMs: number): Promise<string> {
  const server: Server = createHttpServer((request, response) => {
    let body = ''
    request.on('data', (part: Buffer) => (body += part.toString()))
    request.on('end', () => {
      const { resource = '', verb = '', namespace = '' } = JSON.parse(body || '{}').spec?.resourceAttributes ?? {}
      const allowed = !denied.includes(`${verb} ${resource} ${namespace}`)
      const list = { kind: 'List', metadata: { resourceVersion: '1' }, items: [] }
      const isReview = request.url?.endsWith('/selfsubjectaccessreviews') === true
      response.setHeader('Date', new Date(Date.now() - skewMs).toUTCString())
      response
        .setHeader('Content-Type', 'application/json')
        .end(JSON.stringify(isReview ? { status: { allowed } } : list))
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(join(cwd, 'kubeconfig'), JSON.stringify(config))
  return join(cwd, 'kubeconfig')
}

it('says which rights a host lacks in a cluster, and how far the clocks are apart', { timeout: 300_000 }, async () => {
  const cwd = await emptyDirectory()
  const env = { ...free, BACKEND: 'kubernetes', NAMESPACES: 'games' }
  const KUBECONFIG = await cluster(cwd, ['create pods games', 'watch nodes '], 120_000)
  const { code, stdout } = await cli(['doctor'], { cwd, env: { ...env, KUBECONFIG } })
  expect(stdout).toContain(
    'FAIL rights: may not watch nodes, create pods in games; give this user Roles like those in examples/kubernetes/gamekeeper.yaml\n',
  )
  expect(stdout).toMatch(/\nFAIL clock of the cluster: this machine is 1[12]\d s ahead of the API server; /)
  expect(code).toBe(1)
  const good = await cli(['doctor'], { cwd, env: { ...env, KUBECONFIG: await cluster(cwd, [], 0) } })
  expect(good.stdout).toMatch(/\nok {3}rights: all \d+ that a host needs\n/)
})

it.each([
  [0, true],
  [60_000, true],
  [-60_000, true],
  [61_000, false],
  [-61_000, false],
])('a clock that is %i ms ahead is right: %s', (aheadMs, ok) => {
  expect(skewFinding(aheadMs).ok).toBe(ok)
})

it('asks for the rights that examples/kubernetes gives', () => {
  const roles = parseAllDocuments(read('examples/kubernetes/gamekeeper.yaml'))
    .map((document): Role => document.toJS())
    .filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
  const given = roles.flatMap(({ rules, kind, metadata }) =>
    rules.flatMap(({ apiGroups: [group], resources, resourceNames: [name = ''] = [], verbs }) =>
      resources.flatMap((resource) =>
        verbs.map((verb) => [kind === 'ClusterRole' ? '' : metadata.namespace, group, resource, name, verb].join(' ')),
      ),
    ),
  )
  const hosts = { apiGroup: 'mps.gamekeeper.com', namespaces: ['default'], systemNamespace: undefined, podName: 'a-1' }
  const asked = rightsOf(hosts, 'gamekeeper').map(({ namespace = '', group, resource, name = '', verb }) =>
    [namespace, group, resource, name, verb].join(' '),
  )
  expect([...new Set(asked)].toSorted()).toEqual(given.toSorted())
})

interface Role {
  readonly kind: string
  readonly metadata: { readonly namespace: string }
  readonly rules: readonly {
    readonly apiGroups: readonly [string]
    readonly resources: readonly string[]
    readonly resourceNames?: readonly string[]
    readonly verbs: readonly string[]
  }[]
}
