/**
 * The SDK for game servers written in Node. Runs in the game's process and uses the PlayFab GSDK protocol to communicate
 * with the fleet's agent. Depends only on Node's own modules, not on the fleet or its engine.
 */
export { start, type StartOptions } from './start-sdk.js'
export type { GamePort, GameServerConfig } from './config.js'
export type { Gsdk, SdkState } from './interface.js'
export type { RunningSession, SessionCallback } from './callbacks.js'
export type { OwnSession } from './agent-client.js'
export type { Logs } from './game-logs.js'
export type { SdkTiming } from './heartbeat-loop.js'
export type { ServerData, ServerDataUpdate } from '../rules/lifecycle/server-data.js'
export type { SessionConfig } from '../rules/game/heartbeat.js'
