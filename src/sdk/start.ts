/** `start()` reads this game server's configuration and begins its heartbeats. */
import type { Logger } from '../contracts/logger.js'
import { AgentClient } from './agent-client.js'
import { type Environment, readConfig } from './config.js'
import { createGsdk, type Gsdk } from './gsdk.js'
import { guardedLogger, loggerOf } from './logger.js'
import { createLogs } from './logs.js'
import { defaultTiming, type SdkTiming } from './timing.js'

export interface StartOptions {
  /** Called before each heartbeat; false or a throw reports Unhealthy. Default: always Healthy. */
  readonly health?: () => boolean
  /** The first `onTerminate` callback. */
  readonly onTerminate?: () => void | Promise<void>
  /** The SDK's own log, in pino's shape. Default: info, warnings and errors go to `gsdk.logs`. */
  readonly logger?: Logger
  /** Treats SIGTERM as termination once a callback is registered. Default true. */
  readonly handleSigterm?: boolean
  /** The environment to read the configuration from. Default `process.env`. */
  readonly env?: Environment
  /** Other intervals and timeouts, for a game's tests. */
  readonly timing?: Partial<SdkTiming>
}

/**
 * Begins heartbeats as Initializing and resolves as soon as the configuration is read, without waiting for the agent.
 * Call it once per process. Only a pending `readyForPlayers()` keeps the process alive.
 *
 * Throws `invalid` when the configuration is missing or broken.
 */
export async function start(options: StartOptions = {}): Promise<Gsdk> {
  const env = options.env ?? process.env
  const timing: SdkTiming = { ...defaultTiming, ...options.timing }
  const { config, agent, notice } = await readConfig(env)
  const logs = createLogs(config.folders.logs)
  const logger = options.logger === undefined ? loggerOf(logs) : guardedLogger(options.logger)
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
