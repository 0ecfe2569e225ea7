/** The agent: the HTTP endpoint to which game servers send heartbeats. */
export { maxHeartbeatBytes } from './game-bodies.js'
export { agentListener, type AgentListenerOptions, type AgentOperation, answering } from './listener.js'
export type { AgentTarget, ForwardHeartbeat, HeartbeatTarget } from './heartbeat-target.js'
export { type Agent, defaultAgentHost, defaultAgentPort, startAgent, type StartAgentOptions } from './listener.js'
