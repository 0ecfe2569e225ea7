/** start(): reads the configuration of this game server and begins its heartbeats. */
import type { Logger } from '../contracts/logger.js'
import { createAgentClient } from './agent-client.js'
import { type Environment, readConfig } from './config.js'
import { createGsdk, type Gsdk } from './gsdk.js'
import { guardedLogger, loggerOf } from './logger.js'
import { createLogs } from './logs.js'
import { defaultTiming, type SdkTiming } from './timing.js'

export interface StartOptions {
  /** Asked before each heartbeat; false or a throw reports Unhealthy. Absent: Healthy for as long as heartbeats go out. */
  readonly health?: () => boolean
  /** The first `onTerminate` callback. */
  readonly onTerminate?: () => void | Promise<void>
  /** What the SDK itself has to say, in pino's shape. Default: warnings and errors go to `gsdk.logs`, with news of the agent. */
  readonly logger?: Logger
  /** Treats SIGTERM as being told to terminate, once a callback is registered. Default true. */
  readonly handleSigterm?: boolean
  /** Where the configuration is looked for. Default `process.env`. */
  readonly env?: Environment
  /** For tests of a game: other intervals than those of the wire. */
  readonly timing?: Partial<SdkTiming>
}

/**
 * Begins heartbeats as Initializing, and resolves as soon as the configuration is read: it does not wait for the agent,
 * which may be away. To be called once in a process.
 *
 * Nothing of it keeps the process alive, except a pending `readyForPlayers()`.
 *
 * Throws `invalid` when the process has no configuration or a broken one: it was not started by a fleet.
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
    client: createAgentClient(agent, timing.requestTimeoutMs),
    handleSigterm: options.handleSigterm ?? true,
    ...(options.health === undefined ? {} : { health: options.health }),
  })
  if (options.onTerminate !== undefined) gsdk.onTerminate(options.onTerminate)
  return gsdk
}
