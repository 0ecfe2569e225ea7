/**
 * The game server's side, for game servers written in Node: what runs inside their process and speaks to the fleet's
 * agent. The wire is the PlayFab GSDK's. Uses node's own modules and nothing of the fleet or its engine.
 */
export { start, type StartOptions } from './start.js'
export type { GamePort, GameServerConfig } from './config.js'
export type { Gsdk, SdkState } from './gsdk.js'
export type { Logs } from './logs.js'
export type { SdkTiming } from './timing.js'
export type { SessionConfig } from '../rules/game/heartbeat.js'
