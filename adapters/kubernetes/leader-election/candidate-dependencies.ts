import type { WriteFence } from '../client/write-fence.js'
import type { OwnLeaseDependencies } from './own-lease.js'

export interface CandidateDependencies extends OwnLeaseDependencies {
  /** Allows writes only while this host holds the lease. */
  readonly fence?: WriteFence
  /** Resolves to true if an object exists that only a leader creates, so a leader has run before. Default: false. */
  readonly hasRun?: (signal: AbortSignal) => Promise<boolean>
  /** Called when this host has become the leader, with a sentence that says who led before. */
  readonly announce?: (message: string) => void
  /** Why this host must not take the lease. Default: nothing prevents it. */
  readonly obstacle?: () => string | undefined
}
