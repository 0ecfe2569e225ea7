/** An instance of the modelled backend. */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import type { Host } from '../world/host.js'
import type { GameLog } from './game-log.js'
import type { GameModel } from './game-model.js'

export interface ModelInstance {
  readonly spec: InstanceSpec
  readonly address: string
  readonly ports: Instance['ports']
  phase: Instance['phase']
  /** True if it stays pending for long or for ever. */
  readonly hangs: boolean
  exitCode?: number
  game: GameModel | undefined
  readonly log: GameLog
  /** Elapsed ms at which the instance's process started. */
  runningSince: number
  /** The instance's last heartbeat that reached the leader's engine. */
  lastHeartbeat: { readonly by: Host; readonly at: number } | undefined
}
