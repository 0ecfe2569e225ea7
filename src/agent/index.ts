/** The agent: the heartbeat endpoint of game servers. */
export {
  agentListener,
  type AgentListenerOptions,
  type AgentOperation,
  type HeartbeatTarget,
  maxHeartbeatBytes,
} from './listener.js'
export { type Agent, defaultAgentHost, defaultAgentPort, startAgent, type StartAgentOptions } from './start.js'
