/** `start()` reads this game server's configuration and begins its heartbeats. */
import type { Logger } from '../contracts/logger.js'
import {
  aBoolean,
  aFunction,
  aLogger,
  anObject,
  checkNames,
  checkOptions,
  type OptionTypes,
} from '../contracts/option-checks.js'
import { AgentClient } from './agent-client.js'
import { type Environment, readConfig } from './config.js'
import { createLogs, guardedLogger, loggerTo } from './game-logs.js'
import { createGsdk } from './gsdk.js'
import { defaultTiming, type SdkTiming } from './heartbeat-loop.js'
import type { Gsdk } from './interface.js'

export interface StartOptions {
  /** Called before each heartbeat. If it returns false or throws, the server reports Unhealthy. Default: always Healthy. */
  readonly health?: () => boolean
  /** The first `onTerminate` callback. */
  readonly onTerminate?: () => void | Promise<void>
  /** Receives the SDK's own log messages, in pino's format. Default: info, warnings and errors go to `gsdk.logs`. */
  readonly logger?: Logger
  /** Whether SIGTERM terminates the server gracefully once a callback is registered. Default true. */
  readonly handleSigterm?: boolean
  /** The environment to read the configuration from. Default `process.env`. */
  readonly env?: Environment
  /** Overrides intervals and timeouts, for a game's tests. */
  readonly timing?: Partial<SdkTiming>
}

const optionTypes: OptionTypes<StartOptions> = {
  health: aFunction,
  onTerminate: aFunction,
  logger: aLogger,
  handleSigterm: aBoolean,
  env: anObject,
  timing: anObject,
}

/**
 * Starts heartbeats in the state Initializing. Resolves once the configuration is read, without waiting for the agent. Call
 * it once per process. Only a pending `readyForPlayers()` keeps the process alive.
 *
 * Throws `invalid` if the configuration is missing or invalid.
 */
export async function start(options: StartOptions = {}): Promise<Gsdk> {
  checkOptions('start', options, optionTypes)
  if (options.timing) checkNames('start: timing', options.timing, Object.keys(defaultTiming))
  const env = options.env ?? process.env
  const timing: SdkTiming = { ...defaultTiming, ...options.timing }
  const { config, agent, notice } = await readConfig(env)
  const logs = createLogs(config.folders.logs)
  const logger = options.logger === undefined ? loggerTo(logs) : guardedLogger(options.logger)
  if (notice !== undefined) logger.warn({}, notice)
  const gsdk = createGsdk({
    config,
    logs,
    logger,
    timing,
    client: new AgentClient(agent, timing.requestTimeoutMs),
    handleSigterm: options.handleSigterm ?? true,
    ...(options.health === undefined ? {} : { health: options.health }),
  })
  if (options.onTerminate !== undefined) gsdk.onTerminate(options.onTerminate)
  return gsdk
}
