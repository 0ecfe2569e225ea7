/** `gamekeeper doctor`: checks what the bundled server needs on this machine, and says how to mend what is missing. */
import { once } from 'node:events'
import { access, constants, statfs } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname } from 'node:path'
import type { Command } from 'commander'
import { defaultClient } from '../../../adapters/docker/docker-client.js'
import { EngineApi } from '../../../adapters/docker/engine-api.js'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { KubernetesApi } from '../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../adapters/kubernetes/client/kube-config.js'
import { kubernetesBackend } from '../../../adapters/kubernetes/index.js'
import { keySecretName } from '../../../adapters/kubernetes/store/fleet-key.js'
import { endsGamesHere, isolationsHere, limitsHere, processBackend } from '../../../adapters/process/index.js'
import { flagOf } from '../../config/resolve.js'
import type { IsolationStatus } from '../../contracts/backend.js'
import { systemClock } from '../../contracts/clock.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { Backend } from '../../index.js'
import { codeOf } from '../../platform/files.js'
import { openFileLimit, serversForOpenFiles } from '../../platform/open-files.js'
import { counted, isObject } from '../../rules/validation/problem.js'
import { oneLine } from '../../server/log.js'
import { asUsageError } from '../../server/open-fleet.js'
import { withSecretFiles } from '../../server/secrets.js'
import { type Config, readServerConfig } from '../../server/settings.js'
import { exitCodes } from '../failures.js'
import { configOption, settingsOf } from '../flags.js'
import { storedFleet } from '../stored-fleet.js'
import type { Terminal } from '../terminal.js'

interface DoctorFlags {
  readonly config?: string
  readonly json?: boolean
  readonly image?: string
}

const timeoutMs = 10_000
const minFreeBytes = 200 * 1024 * 1024

export function addDoctor(program: Command, terminal: Terminal): void {
  program
    .command('doctor')
    .description(
      'Check what serve needs on this machine, and say how to mend what is missing. Exit code 1: something is.',
    )
    .option(...configOption)
    .option('--json', 'Print JSON.')
    .option(
      '--image <image>',
      'With Docker: the image from which to reach the agent. It needs sh, and node, nc or bash.',
    )
    .action(async (flags: DoctorFlags) => {
      const { env } = await settingsOf(terminal, flags, {})
      const findings = await examine(readServerConfig(withSecretFiles(env), terminal.cwd), flags.image)
      if (flags.json) terminal.print(JSON.stringify(findings))
      else
        for (const { check, ok, message } of findings) {
          const mark = ok ? terminal.paint('green', 'ok  ') : terminal.paint('red', 'FAIL')
          terminal.print(`${mark} ${check}: ${oneLine(message)}`)
        }
      if (findings.some(({ ok }) => !ok)) terminal.exitWith(exitCodes.failed)
    })
}

async function examine(config: Config, image: string | undefined): Promise<readonly Finding[]> {
  const { backend, host, allocationPort, managementPort, health, agentPort, agentHost = '127.0.0.1', dataDir } = config
  const findings = await Promise.all([
    checkPort('ALLOCATION_PORT', host, allocationPort),
    checkPort('MANAGEMENT_PORT', host, managementPort),
    ...(health ? [checkPort('HEALTH_PORT', health.host, health.port)] : []),
    ...(backend === 'process' ? [checkPort('AGENT_PORT', agentHost, agentPort), ...(await checkGames(config))] : []),
    ...(backend === 'kubernetes' || backend === 'memory' ? [] : [checkDirectory(dataDir), checkPortRange(config)]),
    checkClock(),
  ])
  // What needs the engine or the cluster is asked only if it answers.
  if (backend === 'docker') {
    const engine = await checkBackend('Docker', dockerMend, () => dockerBackend({ directory: dataDir }))
    return [...findings, engine, ...(engine.ok ? [await checkAgentFromContainer(config, image)] : [])]
  }
  if (backend === 'kubernetes') {
    const cluster = await checkBackend('cluster', clusterMend, () => clusterOf(config))
    const more = await checkCluster(config)
    // Without a cluster, one finding says so.
    return [
      ...findings,
      cluster,
      ...more.flatMap(({ isAnswered, ...finding }) => (cluster.ok || isAnswered ? [finding] : [])),
    ]
  }
  // After the check of its port, on which it listens.
  return backend === 'process' ? [...findings, await checkAgent(config)] : findings
}

const dockerMend = 'start Docker, set DOCKER_HOST, or add this user to the group docker; or use --backend process'
const clusterMend =
  'set KUBECONFIG, install adapters/kubernetes/crds.yaml, and give this user the rights in examples/kubernetes'

function clusterOf({ namespaces, systemNamespace, apiGroup }: Config): Backend {
  return kubernetesBackend({
    apiGroup,
    ...(namespaces && { namespaces }),
    ...(systemNamespace !== undefined && { systemNamespace }),
  })
}

async function checkPort(variable: string, host: string, port: number): Promise<Finding> {
  const check = `${variable} ${port}`
  if (port === 0) return { check, ok: true, message: 'any free port' }
  const error = await listenError(host, port)
  if (error === undefined) return { check, ok: true, message: `free on ${host}` }
  const isInUse = codeOf(error) === 'EADDRINUSE'
  const why = isInUse ? `in use on ${host}, perhaps by a running gamekeeper` : messageOf(error)
  return { check, ok: false, message: `${why}; choose another with ${flagOf(variable)}` }
}

async function checkPortRange({ portRange: { first, last } }: Config): Promise<Finding> {
  const check = `PORT_RANGE ${first}-${last}`
  const error = await listenError('0.0.0.0', first)
  if (error === undefined)
    return { check, ok: true, message: `${counted(last - first + 1, 'port')}; the first is free` }
  const isPrivileged = codeOf(error) === 'EACCES'
  if (!isPrivileged) return { check, ok: true, message: `port ${first} is in use and will be skipped` }
  return { check, ok: false, message: `port ${first} needs privileges; choose ports above 1023 with --port-range` }
}

function listenError(host: string, port: number): Promise<unknown> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', resolve)
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/** Does not create the directory itself: the server does, with the right mode. */
async function checkDirectory(path: string): Promise<Finding> {
  const check = `DATA_DIR ${path}`
  try {
    const parent = await existing(path)
    await access(parent, constants.W_OK | constants.X_OK)
    const { bavail, bsize } = await statfs(parent)
    const free = bavail * bsize
    const message = `${Math.round(free / 1024 / 1024)} MiB free`
    if (free >= minFreeBytes) return { check, ok: true, message: `writable, ${message}` }
    return { check, ok: false, message: `${message}; make room, or choose another directory with --data-dir` }
  } catch (error) {
    return {
      check,
      ok: false,
      message: `${messageOf(error)}; change its owner or mode, or choose another with --data-dir`,
    }
  }
}

/** The directory, or the nearest one above it that exists. */
async function existing(path: string): Promise<string> {
  try {
    await access(path)
    return path
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return existing(dirname(path))
  }
}

/** Lists the instances, for which a backend needs a connection, credentials and rights. */
async function checkBackend(check: string, mend: string, open: () => Backend): Promise<Finding> {
  let backend: Backend | undefined
  try {
    backend = open()
    await backend.list({ signal: AbortSignal.timeout(timeoutMs) })
    return { check, ok: true, message: 'reachable, and may be listed' }
  } catch (error) {
    const message = FleetError.is(error, 'aborted') ? `no answer within ${timeoutMs / 1000} s` : messageOf(error)
    return { check, ok: false, message: `${message}; ${mend}` }
  } finally {
    await backend?.close()
  }
}

/** Tokens of a cluster, certificates and log times need a clock that is roughly right. */
async function checkClock(): Promise<Finding> {
  const now = Date.now()
  const ok = now > Date.parse('2025-01-01')
  const time = new Date(now).toISOString()
  return { check: 'clock', ok, message: ok ? time : `says ${time}; set it, for example with timedatectl set-ntp true` }
}

// Checks what separates game processes from the host and from each other on this machine, and which limits hold.

interface Finding {
  readonly check: string
  readonly ok: boolean
  /** What is wrong and how to mend it, or what was found. */
  readonly message: string
}

interface Checked {
  readonly finding: Finding
  readonly status: IsolationStatus | undefined
}

const cgroupMend = 'to mend: run as root, outside of a container or in one that may write to its /sys/fs/cgroup'

async function checkGames(config: Config): Promise<readonly Finding[]> {
  const { finding, status } = checkIsolation(config)
  const { memory, pids } = config.isolation === 'systemd' && status ? status : limitsHere()
  const limits = [limitFinding('memory of games', memory), limitFinding('tasks of games', pids)]
  return [finding, ...limits, checkRestarts(config), await checkOpenFiles(config)]
}

/** Compares the limit with the `max` of the builds that a host has stored here. */
async function checkOpenFiles({ apiGroup, dataDir }: Config): Promise<Finding> {
  const check = 'open files'
  const [limit, servers] = [openFileLimit(), serversForOpenFiles()]
  if (limit === undefined || servers === undefined) return { check, ok: true, message: 'no limit' }
  const builds = await storedFleet(dataDir, apiGroup).then(
    (fleet) => fleet.builds.list(),
    // No host has run here, or its store cannot be read, which `serve` reports.
    () => [],
  )
  const max = builds.reduce((sum, { spec }) => sum + spec.max, 0)
  const message = `at most ${limit}, enough for about ${counted(servers, 'game server')}`
  if (max <= servers) return { check, ok: true, message }
  const mend = 'raise it (ulimit -n, or LimitNOFILE of systemd)'
  return { check, ok: false, message: `${message}, but the builds have a max of ${max} together; ${mend}` }
}

function checkRestarts({ isolation }: Config): Finding {
  const why = isolation === 'systemd' ? undefined : endsGamesHere()
  return { check: 'restarts', ok: why === undefined, message: why ?? 'games survive those by this process manager' }
}

function checkIsolation({ isolation, runAs, readOnlyPaths, dataDir: directory }: Config): Checked {
  const check = `ISOLATION ${isolation}`
  try {
    const { isolation: status } = processBackend({ directory, isolation, readOnlyPaths, ...(runAs && { runAs }) })
    if (isolation !== 'none') return { finding: { check, ok: true, message: 'works here' }, status }
    const user = runAs ? `user ${runAs.user}` : 'the user of the host, and can read its files'
    return { finding: { check, ok: true, message: `games run as ${user}; ${others(isolation)}` }, status }
  } catch (error) {
    const message = `${messageOf(asUsageError(error))}; ${others(isolation)}`
    return { finding: { check, ok: false, message }, status: undefined }
  }
}

/** Names every other isolation, and why this machine lacks it. */
function others(chosen: string): string {
  return Object.entries(isolationsHere())
    .filter(([isolation]) => isolation !== chosen && isolation !== 'none')
    .map(([isolation, why]) => (why === undefined ? `--isolation ${isolation} works here` : `${isolation}: ${why}`))
    .join('; ')
}

/** The server works without limits, so their absence is no failure. */
function limitFinding(check: string, limit: string): Finding {
  const isEnforced = limit.includes('per server')
  return { check, ok: true, message: isEnforced ? limit : `${limit}; ${cgroupMend}` }
}

/** Looked for on the engine; none is pulled. */
const usualImages = [
  'gamekeeper-example',
  'busybox',
  'alpine',
  'node',
  'node:22-slim',
  'node:20-slim',
  'debian',
  'ubuntu',
]
/** No other exit code of the probe. */
const noProgram = 42

/** Connects with what the image has. */
const probe = `
if command -v node >/dev/null; then
  exec node -e 'require("net").connect(process.argv[2], process.argv[1]).setTimeout(5000, () => process.exit(1))
    .on("connect", () => process.exit(0)).on("error", () => process.exit(1))' "$1" "$2"
elif command -v nc >/dev/null; then exec nc -z -w 5 "$1" "$2"
elif command -v bash >/dev/null; then exec timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2"
else exit ${noProgram}; fi`

/** For games that are processes of this machine. */
async function checkAgent({ agentAddress, agentHost = '127.0.0.1', agentPort }: Config): Promise<Finding> {
  const check = 'agent'
  try {
    return await listening(agentHost, agentPort, async (port) => {
      const [host, called] = splitAddress(agentAddress ?? agentHost, port)
      const error = await connectError(host, called)
      if (error === undefined) return { check, ok: true, message: `games reach ${host}:${called}` }
      const message = `games cannot reach ${host}:${called}: ${error}; set --agent-address to an address of this machine, or leave it out`
      return { check, ok: false, message }
    })
  } catch (error) {
    return { check, ok: false, message: `${messageOf(error)}; set --agent-host to an address of this machine` }
  }
}

/** Starts a container that connects to the agent's address. `image`: default one of the usual ones that the engine has. */
async function checkAgentFromContainer(config: Config, image: string | undefined): Promise<Finding> {
  const check = 'agent from a container'
  const { agentAddress, agentHost, agentPort, dataDir } = config
  const backend = dockerBackend({ directory: dataDir })
  try {
    const endpoint = await backend.agentEndpoint?.({
      ...(agentHost !== undefined && { host: agentHost }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const host = endpoint?.host ?? '127.0.0.1'
    return await listening(host, agentPort, async (port) => {
      const [called, calledPort] = splitAddress(agentAddress ?? endpoint?.advertisedHost ?? host, port)
      const shown = `${called}:${calledPort}`
      const code = await runProbe(called, calledPort, image)
      if (code === undefined)
        return { check, ok: true, message: 'not checked, since the engine has no usual image; name one with --image' }
      if (code === 0) return { check, ok: true, message: `containers reach ${shown}` }
      if (code === noProgram)
        return { check, ok: true, message: 'not checked, since the image has neither node nor nc nor bash' }
      const mend = `let the firewall pass traffic from containers to ${host}:${port}, or set --agent-host and --agent-address`
      return { check, ok: false, message: `containers cannot reach ${shown}; ${mend}` }
    })
  } catch (error) {
    const mend = 'set --agent-host and --agent-address to an address of this machine that containers reach'
    return { check, ok: false, message: `${messageOf(error)}; ${mend}` }
  } finally {
    await backend.close()
  }
}

/** Resolves with the exit code, or undefined if there is no image. */
async function runProbe(host: string, port: number, given: string | undefined): Promise<number | undefined> {
  const times = { readTimeoutMs: timeoutMs, changeTimeoutMs: 3 * timeoutMs }
  const api = new EngineApi({ client: defaultClient(), clock: systemClock, ...times, onTimeout: () => {} })
  const image = given ?? (await firstImage(api))
  if (image === undefined) return undefined
  const name = `gamekeeper-doctor-${Buffer.from(systemClock.randomBytes(6)).toString('hex')}`
  const id = await api.create(name, {
    Image: image,
    Entrypoint: ['sh', '-c', probe, 'sh', host, String(port)],
    Cmd: [],
    HostConfig: { ExtraHosts: ['host.docker.internal:host-gateway'] },
  })
  try {
    await api.start(id)
    await api.waitUntilStopped(id, timeoutMs)
    const container = await api.inspect(id)
    const state = isObject(container) ? container['State'] : undefined
    const code = isObject(state) && state['Running'] === false ? state['ExitCode'] : undefined
    return typeof code === 'number' ? code : 1
  } finally {
    await api.remove(id, true)
  }
}

async function firstImage(api: EngineApi): Promise<string | undefined> {
  for (const image of usualImages) if (await api.hasImage(image)) return image
  return undefined
}

/** Listens on the agent's port while `work` runs. If a host uses it already, that one is asked. */
async function listening<R>(host: string, port: number, work: (port: number) => Promise<R>): Promise<R> {
  const server = createServer((connection) => connection.destroy())
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE') return work(port)
    throw error
  }
  try {
    const address = server.address()
    return await work(typeof address === 'object' && address !== null ? address.port : port)
  } finally {
    server.close()
  }
}

function connectError(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    const end = (result: string | undefined) => {
      socket.destroy()
      resolve(result)
    }
    socket.setTimeout(timeoutMs, () => end(`no answer within ${timeoutMs / 1000} s`))
    socket.once('connect', () => end(undefined)).once('error', (error) => end(error.message))
  })
}

/** The port of the address, or else `port`. */
function splitAddress(address: string, port: number): readonly [string, number] {
  const [, host = address, own] = /^(.*?)(?::(\d+))?$/.exec(address) ?? []
  // An IPv6 address without a port.
  if (address.split(':').length > 2 && !address.startsWith('[')) return [address, port]
  return [host.replaceAll(/[[\]]/g, ''), own === undefined ? port : Number(own)]
}

// `gamekeeper doctor`: the clock and the rights that a host needs in a cluster.

/** The API server accepts tokens that seem to be at most this far from their time. */
const maxSkewMs = 60_000

const statuses = 'gameserverbuilds/status gameservers/status gameserverallocations/status'
const mend = 'give this user Roles like those in examples/kubernetes/gamekeeper.yaml'

/** One right. Without a namespace: in all. `resource` may contain a subresource. */
interface Right {
  readonly group: string
  readonly resource: string
  readonly verb: string
  readonly namespace?: string
  /** The only object that it concerns. */
  readonly name?: string
}

/** What examples/kubernetes gives to the service account of the hosts, which run in `ownNamespace`. */
export function rightsOf(
  config: Pick<Config, 'apiGroup' | 'namespaces' | 'systemNamespace' | 'podName'>,
  ownNamespace: string,
): readonly Right[] {
  const { apiGroup, namespaces, podName } = config
  const system = config.systemNamespace ?? namespaces?.toSorted()[0] ?? 'default'
  const inOne = (namespace: string | undefined, group: string, resources: string, verbs: string) =>
    resources
      .split(' ')
      .flatMap((resource) =>
        verbs
          .split(' ')
          .map((verb): Right => ({ group, resource, verb, ...(namespace !== undefined && { namespace }) })),
      )
  const everywhere = namespaces ?? [undefined]
  return [
    ...inOne(undefined, '', 'nodes', 'list watch'),
    ...everywhere.flatMap((namespace) => [
      ...inOne(namespace, apiGroup, 'gameserverbuilds gameservers', 'get list watch create patch delete'),
      ...inOne(namespace, apiGroup, 'gameserverdetails', 'get list create patch delete'),
      ...inOne(namespace, apiGroup, 'gameserverdemands', 'get create patch delete'),
      ...inOne(namespace, apiGroup, 'gameserverallocations', 'get list watch delete'),
      ...inOne(namespace, apiGroup, statuses, 'update'),
      ...inOne(namespace, '', 'pods', 'get list watch create patch delete'),
      ...inOne(namespace, '', 'pods/log', 'get'),
      ...inOne(namespace, 'metrics.k8s.io', 'pods', 'get'),
      ...inOne(namespace, '', 'secrets', 'create'),
      ...inOne(namespace, '', 'events', 'list create'),
    ]),
    ...inOne(system, '', 'secrets', 'create'),
    ...inOne(system, '', 'secrets', 'get list watch patch').map((right) => ({ ...right, name: keySecretName })),
    ...inOne(system, apiGroup, 'gameserverjournals', 'get create update'),
    ...inOne(system, 'coordination.k8s.io', 'leases', 'get list watch create update'),
    ...(podName === undefined ? [] : inOne(ownNamespace, '', 'pods', 'list patch')),
  ]
}

interface ClusterFinding extends Finding {
  /** False if the cluster could not be asked. */
  readonly isAnswered: boolean
}

async function checkCluster(config: Config): Promise<readonly ClusterFinding[]> {
  let api: KubernetesApi | undefined
  try {
    api = new KubernetesApi({
      config: defaultKubeConfig(),
      clock: systemClock,
      callTimeoutMs: timeoutMs,
      requestsPerSecond: 200,
      connections: 16,
    })
    const findings = await Promise.all([checkSkew(api), checkRights(api, config)])
    return findings.map((finding) => ({ ...finding, isAnswered: true }))
  } catch (error) {
    return [{ check: 'rights', ok: false, message: `not checked: ${messageOf(error)}; ${mend}`, isAnswered: false }]
  } finally {
    api?.close()
  }
}

async function checkSkew(api: KubernetesApi): Promise<Finding> {
  const check = 'clock of the cluster'
  const sentAt = Date.now()
  const { body, stop } = await api.open({ what: 'read the version', method: 'GET', path: '/version' })
  const middle = (sentAt + Date.now()) / 2
  stop()
  const theirs = Date.parse(body.headers.date ?? '')
  if (Number.isNaN(theirs)) return { check, ok: true, message: 'not checked, since the API server sends no Date' }
  return skewFinding(middle - theirs)
}

/** The header has whole seconds, and the lease works with any skew: its holders compare no clocks. */
export function skewFinding(aheadMs: number): Finding {
  const check = 'clock of the cluster'
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  if (Math.abs(aheadMs) <= maxSkewMs)
    return { check, ok: true, message: `differs from this machine's by ${seconds} s or less` }
  const how = `this machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the API server`
  return {
    check,
    ok: false,
    message: `${how}; tokens and certificates may be refused, and times are wrong; set its clock, for example with timedatectl set-ntp true`,
  }
}

async function checkRights(api: KubernetesApi, config: Config): Promise<Finding> {
  const check = 'rights'
  const rights = rightsOf(config, api.namespace ?? 'default')
  const allowed = await Promise.all(rights.map((right) => isAllowed(api, right)))
  const missing = rights.filter((_, index) => !allowed[index]).map(inWords)
  if (missing.length === 0) return { check, ok: true, message: `all ${rights.length} that a host needs` }
  return { check, ok: false, message: `may not ${[...new Set(missing)].join(', ')}; ${mend}` }
}

async function isAllowed(api: KubernetesApi, { group, resource, verb, namespace = '', name }: Right): Promise<boolean> {
  const [kind, subresource = ''] = resource.split('/')
  const review = await api.request({
    what: 'review a right',
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { group, resource: kind, subresource, verb, namespace, name } },
    },
  })
  const status = isObject(review) ? review['status'] : undefined
  return isObject(status) && status['allowed'] === true
}

function inWords({ resource, verb, namespace, name }: Right): string {
  return `${verb} ${resource}${name === undefined ? '' : ` ${name}`}${namespace === undefined ? '' : ` in ${namespace}`}`
}
