/** The agent: the HTTP endpoint to which game servers send heartbeats. */
export { maxHeartbeatBytes } from './bodies.js'
export { agentListener, type AgentListenerOptions, type AgentOperation, answering } from './listener.js'
export type { AgentTarget, ForwardHeartbeat, HeartbeatTarget } from './requests.js'
export { type Agent, defaultAgentHost, defaultAgentPort, startAgent, type StartAgentOptions } from './start.js'
