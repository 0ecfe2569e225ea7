/**
 * The bundled server: a whole fleet service in one process, set up by its environment (`--help`). It shows how little a
 * host has to do: open a fleet, serve it, leave in order. Only this file ends the process.
 */
import { readFile } from 'node:fs/promises'
import { bearerTokens, serve, webhook } from 'gamekeeper/http'
import { fleetMetrics } from 'gamekeeper/metrics'
import { helpText, readCommand } from './command-line.js'
import { untilToldToLeave } from './leave.js'
import { oneLine, type ServerLog, serverLog } from './log.js'
import { narrate } from './narrate.js'
import { asUsageError, openFleet } from './open-fleet.js'
import { ensureSample, whatToTry } from './sample.js'
import { type Config, isLoopback, readConfig, UsageError } from './settings.js'

for (const stream of [process.stdout, process.stderr]) {
  // Whoever read what is said here has gone, as `head` does: no reason to leave players alone.
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
  narrate(fleet, log)
  try {
    const { tokens } = config
    const listener = { host: config.host, ...(config.tls && { tls: config.tls }) }
    if (tokens.length > 0 && config.tls === undefined && !isLoopback(config.host)) {
      log.warn({}, 'tokens are sent in the clear: set TLS_CERT and TLS_KEY, or let something in front speak HTTPS')
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
    const told = new AbortController()
    const left = untilToldToLeave({
      fleet,
      log,
      onTold: async () => {
        told.abort()
        await sampling
      },
      close: async () => {
        await served.close()
        await hook?.close()
        await fleet.close()
      },
    })
    const sampling = config.sample
      ? ensureSample({ fleet, backend: config.backend, namespace: config.namespaces?.[0], log, signal: told.signal })
      : Promise.resolve(undefined)
    // There in a moment, unless its image has to be built: nobody waits minutes for that.
    if (config.backend !== 'docker') await sampling
    const { allocationUrl, managementUrl, agentAddress } = served
    const agent = agentAddress === undefined ? {} : { agent: `http://${agentAddress}` }
    log.always({ allocation: allocationUrl, management: managementUrl, ...agent }, 'ready')
    const sample = await sampling
    // With tokens or certificates these lines would be refused as they stand.
    const open = tokens.length === 0 && config.tls === undefined
    if (sample && open && log.speaks('info')) {
      const lines = whatToTry(sample, { allocationUrl, managementUrl, pretended: config.backend === 'memory' })
      // For people: where stdout goes to a machine, that reads nothing but lines of JSON.
      const stream = process.stdout.isTTY ? process.stdout : process.stderr
      stream.write(`${lines.join('\n')}\n`)
    }
    return await left
  } finally {
    await fleet.close()
  }
}

async function ownVersion(): Promise<string> {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  const { version }: { version: string } = JSON.parse(text)
  return version
}

/** One line for people, and the end. Game servers run on. */
function fail(thrown: unknown): never {
  const error = asUsageError(thrown)
  process.stderr.write(`gamekeeper: ${error instanceof UsageError ? oneLine(error.message) : inFull(error)}\n`)
  process.exit(1)
}

/** What nobody expected: with the place where it happened. */
function inFull(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error))
  const place = error.stack?.split('\n').find((line) => /^\s+at /.test(line))
  return oneLine(`${error.name}: ${error.message}${place === undefined ? '' : ` (${place.trim()})`}`)
}
