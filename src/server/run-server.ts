/**
 * The bundled server: a complete fleet service in one process, configured by the settings in src/config/variables.ts. Opens a
 * fleet, serves it over HTTP, and shuts down in order. Never ends the process itself.
 */
import { limitsHere } from '../../adapters/process/index.js'
import { dashboardPage } from '../dashboard/index.js'
import { perClientRateLimit, serve, type Served, webhook } from '../http/index.js'
import type { Fleet } from '../contracts/fleet.js'
import { FleetError, systemClock } from '../index.js'
import { type FleetMetrics, fleetMetrics } from '../metrics/index.js'
import { isLoopback } from '../platform/http-server.js'
import { logEvents, type ServerLog, serverLog } from './log.js'
import { openFleet } from './open-fleet.js'
import { commandsToTry, ensureSample } from './sample.js'
import { type ServerEnvironment, tokenAuthorization, withSecretFiles } from './secrets.js'
import { type Config, readServerConfig } from './settings.js'
import { untilShutdown } from './shutdown.js'

interface ServerOptions {
  /** All settings, by their variables. */
  readonly env: ServerEnvironment
  readonly cwd: string
  /** Whether to log JSON lines or readable lines. */
  readonly json: boolean
}

/**
 * Runs until a signal arrives, and resolves with the exit code. Throws UsageError if a setting is invalid, and FleetError if a
 * port or directory cannot be used: see `asUsageError`.
 */
export async function runServer({ env, cwd, json }: ServerOptions): Promise<number> {
  const config = readServerConfig(withSecretFiles(env), cwd)
  return run(
    config,
    env,
    serverLog({ level: config.logLevel, json, write: (line) => process.stdout.write(`${line}\n`) }),
  )
}

async function run(config: Config, env: ServerEnvironment, log: ServerLog): Promise<number> {
  const fleet = await openFleet(config, log)
  logEvents(fleet, log)
  try {
    const { tokens, rateLimit: perSecond } = config
    const listener = { host: config.host, ...(config.tls && { tls: config.tls }) }
    if (tokens.length > 0 && config.tls === undefined && !isLoopback(config.host)) {
      log.warn(
        {},
        'bearer tokens are sent in plain text: set TLS_CERT and TLS_KEY, or terminate HTTPS in front of this server',
      )
    }
    const limitOf = (known: Config['tokens']) =>
      perSecond === undefined ? undefined : perClientRateLimit({ perSecond, burst: 2 * perSecond, tokens: known })
    let rateLimit = limitOf(tokens)
    const authorize = tokenAuthorization(env, log, (changed) => (rateLimit = limitOf(changed)))
    const served = await serve({
      fleet,
      allocation: { ...listener, port: config.allocationPort },
      management: { ...listener, port: config.managementPort },
      ...(config.grpcPort !== undefined && { grpc: { ...listener, port: config.grpcPort } }),
      ...(config.health && { health: config.health }),
      ...(config.forwarding && { forwarding: { host: everywhere(config.forwarding), port: config.forwarding.port } }),
      ...metricsOf(fleet, log),
      dashboard: dashboardPage(),
      allowedHosts: config.allowedHosts,
      allowedOrigins: config.allowedOrigins,
      ...(config.compat && { compat: config.compat }),
      sessionIDs: config.sessionIDs,
      ...(authorize && { authorize }),
      insecure: config.insecure,
      ...(rateLimit && { rateLimit: (request, operation) => rateLimit?.(request, operation) ?? 0 }),
      logger: log,
    })
    const hook = config.webhook && webhook(fleet, { ...config.webhook, from: 1, logger: log })
    const stopping = new AbortController()
    const exitCode = untilShutdown({
      fleet,
      log,
      onSignal: async () => {
        stopping.abort()
        await sampling
      },
      close: async () => {
        if (config.forwarding) await leave(served, log)
        await served.close()
        await hook?.close()
        await fleet.close()
      },
    })
    const sampling = config.sample
      ? ensureSample({
          fleet,
          backend: config.backend,
          namespace: config.namespaces?.[0],
          log,
          signal: stopping.signal,
        })
      : Promise.resolve(undefined)
    // Usually quick. With Docker an image may have to be built first, so `ready` does not wait for the sample.
    if (config.backend !== 'docker') await sampling
    const { allocationUrl, managementUrl, healthUrl, grpcUrl, agentAddress } = served
    const agent = agentAddress === undefined ? {} : { agent: `http://${agentAddress}` }
    const games = await gamesOf(config, fleet)
    const health = healthUrl === undefined ? {} : { health: healthUrl }
    const grpc = grpcUrl === undefined ? {} : { grpc: grpcUrl }
    const { allocationUrl: allocation = allocationUrl, managementUrl: management = managementUrl } = config
    log.always({ allocation, management, ...grpc, ...health, ...agent, ...games }, 'ready')
    const sample = await sampling
    // With tokens or client certificates, the printed commands would be rejected. In a pod, callers use its Services instead.
    const areUseful = tokens.length === 0 && config.tls === undefined && config.podName === undefined
    if (sample && areUseful && log.isEnabled('info')) {
      const lines = commandsToTry(sample, { allocationUrl, managementUrl, simulated: config.backend === 'memory' })
      // The sample commands are for people. If stdout is not a terminal, it carries only JSON lines.
      const stream = process.stdout.isTTY ? process.stdout : process.stderr
      stream.write(`${lines.join('\n')}\n`)
    }
    return await exitCode
  } finally {
    await fleet.close()
  }
}

/** How long a Service may take to leave out a host that shuts down. */
const leavingMs = 3_000

/** The next leader answers the calls that still arrive here. If the lead cannot be handed over in order, the host closes all the same. */
async function leave(served: Served, log: ServerLog): Promise<void> {
  const left = new Promise<void>((resolve) => systemClock.after(leavingMs, resolve))
  await served.handOver().catch((error: unknown) => log.error({ err: error }, 'handing over the lead failed'))
  await left
}

/** Every address of this machine: only servers of the fleet are admitted. */
function everywhere({ address }: NonNullable<Config['forwarding']>): string {
  return address.startsWith('[') ? '::' : '0.0.0.0'
}

/** The package for metrics is optional, and a server without them is of use all the same. */
function metricsOf(fleet: Fleet, log: ServerLog): { readonly metrics?: FleetMetrics } {
  try {
    return { metrics: fleetMetrics(fleet) }
  } catch (error) {
    if (!FleetError.is(error, 'internal')) throw error
    log.warn({}, `GET /metrics is not served: ${error.message}`)
    return {}
  }
}

/** What separates and limits the games, for the log. */
async function gamesOf({ backend, isolation, runAs }: Config, fleet: Fleet): Promise<object> {
  if (backend !== 'process') return {}
  const bySystemd = isolation === 'systemd' ? (await fleet.health()).isolation : undefined
  const { memory, pids } = bySystemd ?? limitsHere()
  return { isolation, ...(runAs && { runAs }), limits: { memory, pids } }
}
