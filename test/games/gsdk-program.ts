/**
 * A game server that behaves like a game built with one of the real PlayFab GSDK clients: the same paths, casing, pauses and
 * order of requests, and no SIGTERM handler. Runs in its own process, as text passed to `node -e` (see `gsdk-game.ts`), so it
 * must not contain a dollar sign followed by a parenthesis, which Kubernetes would expand.
 *
 * Prints one JSON line per event: started, session, terminate, callback-done, signal, maintenance, unreachable, exiting. With
 * `--report PORT`, also posts each line to that port of the agent's host.
 */
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { request } from 'node:http'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    /** cpp, csharp, go, java, unity, unreal or godot. */
    client: { type: 'string', default: 'cpp' },
    /** Time in ms from the first heartbeat until the game calls ReadyForPlayers. */
    'ready-after': { type: 'string', default: '0' },
    /** Duration of the shutdown callback in ms. The process exits with code 0 at its end. */
    shutdown: { type: 'string', default: '0' },
    /** Time in ms from its session until the game exits with code 0. Default: it stays. */
    match: { type: 'string' },
    /** Registers a health callback that reports Healthy and, from this many ms after the start, Unhealthy. */
    'unhealthy-after': { type: 'string' },
    /** Ids of connected players while Active, separated by commas. Default: the initial players of the session. */
    players: { type: 'string' },
    /** Unity's pauses after errors in ms, separated by commas. */
    pauses: { type: 'string', default: '30000,300000,600000,900000' },
    /** Installs a handler that reports the termination signal and otherwise ignores it. No client has one. */
    signal: { type: 'boolean', default: false },
    report: { type: 'string' },
  },
})

interface Client {
  readonly method: 'PATCH' | 'POST'
  /** Suffix of the heartbeat path. */
  readonly path: '' | '/heartbeats'
  /** Sends its name and version before its first heartbeat. */
  readonly info?: true
  readonly initialState?: string
  /** Time in ms before the first heartbeat. A state that is reported early ends it. */
  readonly firstAfterMs: number
  /** Sends its first heartbeat before any code of the game runs; exits with 1 if it is not answered. */
  readonly startsBlocked?: true
  /** States that are reported at once; others wait for the next heartbeat. */
  readonly early: readonly string[]
  /** Sends a heartbeat every second, whatever interval the agent answers. */
  readonly fixedInterval?: true
  readonly timeoutMs?: number
  readonly attempts?: number
  readonly backsOff?: true
  /** Handles an answer only after its next heartbeat. */
  readonly late?: true
  /** Throws if it is told twice that it is Active. */
  readonly activeOnce?: true
  /** Parses the session id, and returns it in lower case. */
  readonly parsesSessionId?: true
  /** What it reports while its shutdown callback runs: Terminating each second, Terminated once, or nothing. */
  readonly during?: 'Terminating' | 'Terminated'
  /** What it reports once its shutdown callback has returned. */
  readonly after: readonly string[]
}

interface Answer {
  readonly operation: string
  readonly nextHeartbeatIntervalMs: number
  readonly sessionConfig?: SessionConfig
  readonly nextScheduledMaintenanceUtc?: string
  readonly maintenanceSchedule?: Fields & { readonly Events: readonly Fields[] }
}

type Fields = Readonly<Record<string, unknown>>

interface SessionConfig {
  readonly sessionId: string
  readonly sessionCookie?: string
  readonly initialPlayers?: readonly string[]
  readonly metadata?: Readonly<Record<string, string>>
}

const all = ['StandingBy', 'Active', 'Terminating']
const answered = ['Active', 'Terminating']
const patch = { method: 'PATCH', path: '' } as const
const post = { method: 'POST', path: '/heartbeats', fixedInterval: true } as const

const clients: Readonly<Record<string, Client>> = {
  cpp: { ...patch, info: true, firstAfterMs: 1000, early: all, during: 'Terminating', after: ['Terminating'] },
  csharp: {
    ...{ ...patch, info: true, initialState: 'Invalid', firstAfterMs: 1000, early: all, fixedInterval: true },
    ...{ timeoutMs: 100_000, parsesSessionId: true, after: ['Terminating'] },
  },
  go: { ...post, firstAfterMs: 1000, early: answered, after: ['Terminating'] },
  java: {
    ...{ ...patch, info: true, firstAfterMs: 0, startsBlocked: true, early: all, timeoutMs: 1000, attempts: 8 },
    ...{ parsesSessionId: true, after: ['Terminating', 'Terminated'] },
  },
  unity: {
    ...{ ...post, info: true, firstAfterMs: 1000, early: [], backsOff: true, activeOnce: true },
    ...{ during: 'Terminated', after: [] },
  },
  unreal: { ...patch, info: true, firstAfterMs: 2000, early: ['Active'], late: true, after: [] },
  godot: { ...post, firstAfterMs: 1000, early: answered, during: 'Terminating', after: [] },
}
/** Names in a maintenance event, in camel case. */
const eventFields = [
  ...['eventId', 'eventType', 'resourceType', 'eventStatus'],
  ...['notBefore', 'description', 'eventSource', 'durationInSeconds'],
]

const client = clientNamed(options.client)

const config = JSON.parse(readFileSync(process.env['GSDK_CONFIG_FILE'] ?? '', 'utf8'))
const agentHost = config.heartbeatEndpoint.slice(0, config.heartbeatEndpoint.lastIndexOf(':'))
const startedAt = Date.now()
const settings = configSettings()
let state = client.initialState ?? 'Initializing'
let players: readonly string[] = []
let maintenanceAt = 0
let scheduleSeen = ''
let failures = 0
let answers = 0
let previous: Answer | undefined
let wake = () => {}
let isEarly = false
let isStopped = false
/** Settles once every line so far has arrived. */
let said: Promise<unknown> = Promise.resolve()
const info = { Flavor: options.client, Version: '1.0.0' }

// Like the real clients, prints the session host id.
console.log(`Instance Id: ${config.sessionHostId}`)
void say('started', { client: options.client, environment: process.env, config, folders: writableFolders() })
if (options.signal) process.on('SIGTERM', () => void say('signal'))
await run()

async function run() {
  if (client.info) await send('POST', `/v1/metrics/${config.sessionHostId}/gsdkinfo`, info).catch(() => {})
  if (client.startsBlocked) await heartbeat()
  setTimeout(() => setState('StandingBy'), Number(options['ready-after']))
  let pauseMs = client.firstAfterMs
  while (!isStopped) {
    await pause(pauseMs)
    if (!isStopped) pauseMs = await heartbeat()
  }
}

/** Sends one heartbeat and resolves with the pause in ms before the next. */
async function heartbeat(): Promise<number> {
  let answer: Answer
  try {
    const sending = sendWithRetries(body(state))
    if (client.late && previous) handle(previous)
    answer = JSON.parse(await sending)
  } catch (error) {
    return unreachable(error)
  }
  failures = 0
  answers++
  previous = answer
  if (!client.late) handle(answer)
  return client.fixedInterval ? 1000 : answer.nextHeartbeatIntervalMs
}

function unreachable(error: unknown): number {
  failures++
  void say('unreachable', { client: options.client, failures, error: String(error) })
  if (client.startsBlocked && answers === 0) return exit(1)
  if (!client.backsOff) return 1000
  const pauses = options.pauses.split(',').map(Number)
  const pauseMs = pauses[failures - 1]
  // After its last pause Unity never sends a heartbeat again.
  if (pauseMs === undefined) isStopped = true
  return pauseMs ?? 0
}

/** Java tries eight times, a second apart; the others once. */
async function sendWithRetries(content: object): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send(client.method, `/v1/sessionHosts/${config.sessionHostId}${client.path}`, content)
    } catch (error) {
      if (attempt >= (client.attempts ?? 1)) throw error
      await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  }
}

function body(reported: string): object {
  const health = healthNow()
  if (options.client === 'java')
    return {
      currentGameState: reported,
      currentGameHealth: health,
      // Absent until the game has reported players.
      ...(players.length > 0 && { currentPlayers: players.map((playerId) => ({ playerId })) }),
    }
  if (options.client === 'unity')
    return {
      CurrentGameState: reported,
      CurrentGameHealth: health,
      CurrentPlayers: players.map((playerId) => ({ playerId })),
    }
  // C++ and Go send null while there are no players.
  const none = (options.client === 'cpp' || options.client === 'go') && players.length === 0
  return {
    CurrentGameState: reported,
    CurrentGameHealth: health,
    CurrentPlayers: none ? null : players.map((PlayerId) => ({ PlayerId })),
  }
}

/** Without a health callback, C#, Go and Godot report Unhealthy, and Java reports nothing. */
function healthNow(): string | undefined {
  const unhealthyAfter = options['unhealthy-after']
  if (unhealthyAfter !== undefined) return Date.now() - startedAt >= Number(unhealthyAfter) ? 'Unhealthy' : 'Healthy'
  if (['csharp', 'go', 'godot'].includes(options.client)) return 'Unhealthy'
  return options.client === 'java' ? undefined : 'Healthy'
}

function handle(answer: Answer): void {
  const { operation, sessionConfig } = answer
  hearMaintenance(answer)
  if (operation === 'Active' && client.activeOnce && state === 'Active') throw new Error('Active was answered twice')
  if (operation === 'Active' && sessionConfig && state !== 'Active') {
    players = options.players?.split(',') ?? sessionConfig.initialPlayers ?? []
    addToSettings(sessionConfig)
    void say('session', { session: sessionConfig, settings: Object.fromEntries(settings) })
    setState('Active')
    if (options.match !== undefined) setTimeout(() => exit(0), Number(options.match))
  }
  if (operation === 'Terminate' && state !== 'Terminating' && state !== 'Terminated') terminate()
}

/** The map that a client's GetConfigSettings returns: the build's metadata, then the ports, then its own settings. */
function configSettings(): Map<string, string> {
  const own = {
    titleId: process.env['PF_TITLE_ID'],
    buildId: process.env['PF_BUILD_ID'],
    region: process.env['PF_REGION'],
    vmId: config.vmId,
    logFolder: config.logFolder,
  }
  return new Map(Object.entries({ ...config.buildMetadata, ...config.gamePorts, ...own }))
}

/** The clients copy a session's metadata over their settings. Unity throws if `sessionId` or `sessionCookie` is set already. */
function addToSettings({ sessionId, sessionCookie = '', metadata = {} }: SessionConfig): void {
  const known = new Set([...settings.keys()].map((key) => key.toLowerCase()))
  const shown = client.parsesSessionId ? sessionId.toLowerCase() : sessionId
  for (const [key, value] of Object.entries({ sessionId: shown, sessionCookie })) {
    if (options.client === 'unity' && known.has(key.toLowerCase())) throw new Error(`the key ${key} exists already`)
    settings.set(key, value)
  }
  // Java does not read it.
  if (options.client === 'java') return
  for (const [key, value] of Object.entries(metadata)) settings.set(key, value)
}

/**
 * Reports a time or a schedule once, although Unity calls the game with both of them after every heartbeat, and the other
 * clients with the schedule.
 */
function hearMaintenance({ nextScheduledMaintenanceUtc, maintenanceSchedule }: Answer): void {
  // C++ and Unreal read the part before the Z, which must be there for the others.
  const [, time] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z$/.exec(nextScheduledMaintenanceUtc ?? '') ?? []
  const at = time === undefined ? 0 : Date.parse(time + 'Z')
  // Go is not called for an earlier time than the last.
  if (options.client === 'go' ? at > maintenanceAt : at !== 0 && at !== maintenanceAt) {
    maintenanceAt = at
    void say('maintenance', { beginsAt: new Date(at).toISOString() })
  }
  if (maintenanceSchedule === undefined || options.client === 'go' || options.client === 'godot') return
  const schedule = scheduleOf(maintenanceSchedule)
  const text = JSON.stringify(schedule)
  if (text !== scheduleSeen) void say('maintenance', { schedule })
  scheduleSeen = text
}

/** The schedule with the fields that this client reads. Throws if one of them is missing. */
function scheduleOf(schedule: NonNullable<Answer['maintenanceSchedule']>): object {
  return {
    documentIncarnation: fieldOf(schedule, 'documentIncarnation'),
    events: schedule.Events.map((event) => ({
      ...Object.fromEntries(eventFields.map((name) => [name, fieldOf(event, name)])),
      resources: listOf(event, 'Resources'),
    })),
  }
}

/** Unreal reads names in Pascal case, C++, Java and Unity in camel case, and C# in any case. */
function fieldOf(fields: Fields, name: string): unknown {
  const pascal = name.charAt(0).toUpperCase() + name.slice(1)
  const value = options.client === 'unreal' ? fields[pascal] : fields[name]
  if (value === undefined || value === null) throw new Error('the schedule lacks ' + name)
  return value
}

/** C# appends to a list if its name occurs again in another case. */
function listOf(fields: Fields, name: string): unknown {
  if (options.client !== 'csharp') return fields[name]
  return Object.entries(fields).flatMap(([key, value]) => (key.toLowerCase() === name.toLowerCase() ? value : []))
}

function terminate(): void {
  void say('terminate', { state })
  setState('Terminating')
  isStopped = client.during !== 'Terminating'
  if (client.during === 'Terminated') void report(client.during)
  setTimeout(() => void afterCallback(), Number(options.shutdown))
}

async function afterCallback(): Promise<void> {
  isStopped = true
  void say('callback-done')
  for (const reported of client.after) await report(reported)
  exit(0)
}

async function report(reported: string): Promise<void> {
  const path = `/v1/sessionHosts/${config.sessionHostId}${client.path}`
  await send(client.method, path, body(reported)).catch(() => {})
}

/** The variables that name a folder in which this game can create files. */
function writableFolders() {
  return Object.entries(process.env)
    .filter(([name, path]) => /FOLDER$|DIRECTORY$/.test(name) && path !== undefined && isWritable(path))
    .map(([name]) => name)
}

function isWritable(path: string) {
  try {
    accessSync(path, constants.W_OK)
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

function setState(next: string): void {
  if (next === 'StandingBy' && state !== (client.initialState ?? 'Initializing')) return
  state = next
  isEarly = client.early.includes(next)
  if (isEarly) wake()
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, isEarly ? 0 : ms)
    wake = () => {
      clearTimeout(timer)
      resolve()
    }
  })
  isEarly = false
  wake = () => {}
}

function send(method: string, path: string, content: object): Promise<string> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(content)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const [host, port] = [agentHost, config.heartbeatEndpoint.slice(agentHost.length + 1)]
    const outgoing = request({ host, port, method, path, headers, timeout: client.timeoutMs }, (incoming) => {
      let received = ''
      incoming.setEncoding('utf8')
      incoming.on('data', (part) => (received += part))
      incoming.on('end', () =>
        incoming.statusCode === 200 ? resolve(received) : reject(new Error(`status ${incoming.statusCode}`)),
      )
    })
    outgoing.on('timeout', () => outgoing.destroy(new Error('timed out')))
    outgoing.on('error', reject)
    outgoing.end(text)
  })
}

function say(event: string, fields: object = {}): Promise<void> {
  const line = JSON.stringify({ event, at: Date.now(), server: process.env['PF_GAMESERVER_NAME'], ...fields })
  console.log(line)
  if (options.report === undefined) return Promise.resolve()
  const sent = new Promise<void>((resolve) => {
    // A connection of its own: one that is kept may be closed by the other side just now, and the line would be lost.
    const target = { host: agentHost, port: options.report, method: 'POST', path: '/', agent: false } as const
    const outgoing = request(target, (incoming) => incoming.resume().on('end', () => resolve()))
    outgoing.on('error', () => resolve())
    outgoing.end(line)
  })
  // Each line is a request of its own, so a later one may arrive earlier.
  said = Promise.all([said, sent])
  return sent
}

function exit(code: number): 0 {
  isStopped = true
  void say('exiting', { code })
  void said.then(() => process.exit(code))
  return 0
}

function clientNamed(name: string): Client {
  const found = clients[name]
  if (!found) throw new Error(`unknown client ${name}`)
  return found
}
