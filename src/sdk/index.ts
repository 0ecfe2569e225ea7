/**
 * The SDK for game servers written in Node: runs in the game's process and speaks the PlayFab GSDK protocol with the
 * fleet's agent. Uses Node's own modules and nothing of the fleet or its engine.
 */
export { start, type StartOptions } from './start.js'
export type { GamePort, GameServerConfig } from './config.js'
export type { Gsdk, SdkState } from './gsdk.js'
export type { Logs } from './logs.js'
export type { SdkTiming } from './timing.js'
export type { SessionConfig } from '../rules/game/heartbeat.js'
