/** Runs the agent on its own port. */
import { backgroundClock } from '../contracts/clock.js'
import { loggerOf } from '../contracts/stderr-logger.js'
import { closeServer, httpServer, listen, type Listening } from '../platform/http-server.js'
import { watchOpenFiles } from '../platform/open-files.js'
import { agentListener, type AgentListenerOptions } from './listener.js'
import type { AgentTarget } from './requests.js'

export const defaultAgentPort = 56_001
export const defaultAgentHost = '127.0.0.1'
/** SDKs wait for each answer. */
const maxPipelined = 16

export interface StartAgentOptions extends AgentListenerOptions {
  readonly target: AgentTarget
  /** Default `127.0.0.1`. */
  readonly host?: string
  /** Default 56001; 0 picks a free port. */
  readonly port?: number
}

export interface Agent extends Listening {
  /** Stops listening, answers heartbeats in flight, and closes idle connections. Game servers retry by themselves. */
  close(): Promise<void>
}

/** Throws `port-in-use`, or `invalid` if the agent cannot listen on the host or port. */
export async function startAgent(options: StartAgentOptions): Promise<Agent> {
  const { target, host = defaultAgentHost, port = defaultAgentPort, logger } = options
  const withLogger = logger === undefined ? {} : { logger }
  const server = httpServer(agentListener(target, withLogger), { maxPipelined })
  const listening = await listen(server, { host, port, option: 'agent', ...withLogger })
  const stopWatching = watchOpenFiles(backgroundClock, loggerOf(logger))
  let closing: Promise<void> | undefined
  const close = () => {
    stopWatching()
    return closeServer(server)
  }
  return { ...listening, close: () => (closing ??= close()) }
}
