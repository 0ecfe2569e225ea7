/** Runs the agent on its own port. */
import { closeServer, httpServer, listen, type Listening } from '../platform/http-server.js'
import { agentListener, type AgentListenerOptions, type HeartbeatTarget } from './listener.js'

export const defaultAgentPort = 56_001
export const defaultAgentHost = '127.0.0.1'

export interface StartAgentOptions extends AgentListenerOptions {
  readonly target: HeartbeatTarget
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
  const server = httpServer(agentListener(target, withLogger))
  const listening = await listen(server, { host, port, option: 'agent', ...withLogger })
  let closing: Promise<void> | undefined
  return { ...listening, close: () => (closing ??= closeServer(server)) }
}
