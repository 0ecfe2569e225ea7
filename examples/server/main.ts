/**
 * The bundled server: a complete fleet service in one process, configured by environment variables (`--help`). Opens a
 * fleet, serves it over HTTP, and shuts down in order. Only this file ends the process.
 */
import { readFile } from 'node:fs/promises'
import { bearerTokens, serve, webhook } from 'gamekeeper/http'
import { fleetMetrics } from 'gamekeeper/metrics'
import { helpText, readCommand } from './command-line.js'
import { logEvents } from './event-logging.js'
import { oneLine, type ServerLog, serverLog } from './log.js'
import { asUsageError, openFleet } from './open-fleet.js'
import { commandsToTry, ensureSample } from './sample.js'
import { type Config, isLoopback, readConfig, UsageError } from './settings.js'
import { untilShutdown } from './shutdown.js'

for (const stream of [process.stdout, process.stderr]) {
  // The process that reads the output may exit, as `head` does. That must not stop the fleet.
  stream.on('error', () => {})
}
process.on('uncaughtException', (error) => fail(error))
process.on('unhandledRejection', (error) => fail(error))

process.exit(await main(process.argv.slice(2)).catch(fail))

async function main(args: readonly string[]): Promise<number> {
  switch (readCommand(args)) {
    case 'help':
      process.stdout.write(helpText())
      return 0
    case 'version':
      process.stdout.write(`${await ownVersion()}\n`)
      return 0
    case 'run': {
      const config = readConfig(process.env, process.cwd())
      const json = !process.stdout.isTTY
      return run(
        config,
        serverLog({ level: config.logLevel, json, write: (line) => process.stdout.write(`${line}\n`) }),
      )
    }
  }
}

async function run(config: Config, log: ServerLog): Promise<number> {
  const fleet = await openFleet(config, log)
  logEvents(fleet, log)
  try {
    const { tokens } = config
    const listener = { host: config.host, ...(config.tls && { tls: config.tls }) }
    if (tokens.length > 0 && config.tls === undefined && !isLoopback(config.host)) {
      log.warn(
        {},
        'bearer tokens are sent in plain text: set TLS_CERT and TLS_KEY, or terminate HTTPS in front of this server',
      )
    }
    const served = await serve({
      fleet,
      allocation: { ...listener, port: config.allocationPort },
      management: { ...listener, port: config.managementPort },
      metrics: fleetMetrics(fleet),
      allowedHosts: config.allowedHosts,
      allowedOrigins: config.allowedOrigins,
      ...(config.compat && { compat: config.compat }),
      ...(tokens.length > 0 && { authorize: bearerTokens(tokens) }),
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
    const { allocationUrl, managementUrl, agentAddress } = served
    const agent = agentAddress === undefined ? {} : { agent: `http://${agentAddress}` }
    log.always({ allocation: allocationUrl, management: managementUrl, ...agent }, 'ready')
    const sample = await sampling
    // With tokens or client certificates, the printed commands would be rejected.
    const isOpen = tokens.length === 0 && config.tls === undefined
    if (sample && isOpen && log.isEnabled('info')) {
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

async function ownVersion(): Promise<string> {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  const { version }: { version: string } = JSON.parse(text)
  return version
}

/** Prints one line and exits. Leaves game servers running. */
function fail(thrown: unknown): never {
  const error = asUsageError(thrown)
  process.stderr.write(`gamekeeper: ${error instanceof UsageError ? oneLine(error.message) : withLocation(error)}\n`)
  process.exit(1)
}

/** Describes an unexpected error, including where it was thrown. */
function withLocation(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error))
  const location = error.stack?.split('\n').find((line) => /^\s+at /.test(line))
  return oneLine(`${error.name}: ${error.message}${location === undefined ? '' : ` (${location.trim()})`}`)
}
