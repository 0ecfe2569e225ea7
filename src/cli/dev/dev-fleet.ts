/** The fleet of `gamekeeper dev`: one build on processes, its games' output, and matches to play with. */
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { processBackend } from '../../../adapters/process/index.js'
import { createFleet, type Fleet, FleetError, type FleetEvent, type GameServerBuildInput } from '../../index.js'
import { dashboardPage } from '../../dashboard/index.js'
import { serve, type Served } from '../../http/index.js'
import type { Config } from '../../server/settings.js'
import type { DevelopmentOutput } from './dev-output.js'

export interface DevelopmentOptions {
  readonly command: readonly string[]
  readonly isSample: boolean
  readonly cwd: string
  readonly port: number
  readonly standingBy: number
  readonly max: number
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly config: Config
  /** Default: that of the settings. */
  readonly agentPort: number | undefined
  readonly output: DevelopmentOutput
  /** Ends everything. */
  readonly signal: AbortSignal
  /** Each line asks for another match. */
  readonly input: Readable
}

const buildID = 'dev'
const name = 'dev'
/** A game that is not ready by then has probably forgotten to say so. */
const hintAfterMs = 10_000

/** Resolves when the signal has fired and everything has ended. */
export async function runDevelopmentFleet(options: DevelopmentOptions): Promise<void> {
  const { config, output } = options
  const fleet = await createFleet({
    backend: processBackend({
      directory: config.dataDir,
      development: { output: (server, line) => output.game(server, line) },
      logger: false,
      portRange: config.portRange,
      ...(config.publicAddress !== undefined && { publicAddress: config.publicAddress }),
    }),
    agent: { port: options.agentPort ?? config.agentPort },
    audit: false,
    // It reports what happens itself.
    logger: false,
  })
  let served: Served | undefined
  try {
    served = await serveLocally(fleet, config)
    const { allocationUrl, managementUrl } = served
    const command = options.isSample ? 'the sample game' : options.command.join(' ')
    output.say('ready', `gamekeeper dev: ${command}; management ${managementUrl}, allocation ${allocationUrl}`, {
      management: managementUrl,
      allocation: allocationUrl,
    })
    fleet.on('*', (event) => tell(event, output))
    await fleet.builds.create(buildOf(options))
    await playMatches(fleet, options)
    output.say('ending', 'ending the games')
  } finally {
    await served?.close()
    await fleet.close()
  }
}

function buildOf({ command, cwd, port, standingBy, max, env }: DevelopmentOptions): GameServerBuildInput {
  const [program = '', ...args] = command
  const ports = [{ name: 'game', containerPort: port }]
  const container = { name: 'game', command: [program], args, env, workingDir: cwd, ports }
  const template = { spec: { containers: [container] } }
  return { metadata: { name }, spec: { buildID, standingBy, max, portsToExpose: [port], template } }
}

/** On the ports of the settings, or on free ones if those are in use. */
async function serveLocally(fleet: Fleet, { allocationPort, managementPort }: Config): Promise<Served> {
  const at = (allocation: number, management: number) =>
    serve({ fleet, allocation: { port: allocation }, management: { port: management }, dashboard: dashboardPage() })
  try {
    return await at(allocationPort, managementPort)
  } catch (error) {
    if (!FleetError.is(error, 'port-in-use')) throw error
    return at(0, 0)
  }
}

/** Allocates a match at once, and another for each line of input. Resolves when the signal fires. */
async function playMatches(fleet: Fleet, { output, signal, input, isSample }: DevelopmentOptions): Promise<void> {
  const lines = createInterface({ input })
  const allocations = new Set<Promise<void>>()
  const allocate = () => {
    const allocation = allocateMatch(fleet, output, signal, isSample).finally(() => allocations.delete(allocation))
    allocations.add(allocation)
  }
  const hint = setTimeout(() => {
    const text = `no server is ready after ${hintAfterMs / 1000} s: a game must call readyForPlayers() of its GSDK`
    output.warn('hint', text)
  }, hintAfterMs)
  const unlisten = fleet.on('ServerStateChanged', ({ to }) => {
    if (to === 'StandingBy') clearTimeout(hint)
  })
  lines.on('line', allocate)
  allocate()
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })
  clearTimeout(hint)
  unlisten()
  lines.close()
  await Promise.all(allocations)
}

/** Tries until a server is ready. */
async function allocateMatch(
  fleet: Fleet,
  output: DevelopmentOutput,
  signal: AbortSignal,
  isSample: boolean,
): Promise<void> {
  const sessionID = randomUUID()
  while (!signal.aborted) {
    try {
      const request = { buildID, sessionID, initialPlayers: ['amie', 'bob'] }
      const { IPV4Address, Ports } = await fleet.allocate(request, { waitMs: 30_000, confirm: true, signal })
      const place = Ports.split(',').map((pair) => `${IPV4Address}:${pair.split(':').at(-1)}`)
      const talk = isSample ? `; talk to it: nc ${place.join(' ').replace(':', ' ')}` : ''
      const text = `match ${sessionID} is on ${place.join(', ')}${talk}; Enter: another match, Ctrl-C: end`
      output.say('allocated', text, { sessionID, IPV4Address, Ports })
      return
    } catch (error) {
      if (signal.aborted) return
      if (!FleetError.is(error) || !error.retryable) throw error
      output.warn('waiting', error.message, { code: error.code })
    }
  }
}

/** Shows the events that matter to a developer. */
function tell(event: FleetEvent, output: DevelopmentOutput): void {
  const server = 'server' in event ? { server: event.server.name } : {}
  const fields = { ...server, event: event.type }
  if (event.type === 'ServerStateChanged') {
    if (event.to === 'StandingBy') output.say('event', `${event.server.name} is ready`, fields)
  } else if (event.type === 'ServerEnding') {
    if (event.crash) output.warn('event', event.message, fields)
    else if (event.reason !== 'Drained') output.say('event', event.message, fields)
  } else if (event.type === 'ConditionChanged') {
    // The crash itself is shown, and a drain is how `dev` ends.
    const isShown = event.condition !== 'Crashing' && event.condition !== 'Draining'
    if (event.status && isShown) output.warn('event', event.message, fields)
  } else if (troubles.has(event.type)) output.warn('event', event.message, fields)
}

const troubles: ReadonlySet<FleetEvent['type']> = new Set(['ServerStartFailed', 'ServerLate', 'TemplateFieldsSkipped'])
