/** Writes the status of a GameServerAllocation until it is written or no longer this host's to write. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { isKubeObject, revisionOf } from '../client/kube-objects.js'
import type { CustomObjects } from '../store/custom-objects.js'
import { type AllocationObject, readAllocation } from './allocation-object.js'

export interface OutcomeWriterDependencies {
  readonly api: KubernetesApi
  readonly objects: CustomObjects
  readonly logger: Logger
}

const retryLimits = { initialMs: 250, maxMs: 5_000 }

/**
 * Resolves with the new revision. Undefined: the object has been deleted or is finished, or this host no longer leads. Never rejects.
 */
export async function writeOutcome(
  { api, objects, logger }: OutcomeWriterDependencies,
  { ref, uid, revision }: AllocationObject,
  status: object,
  signal: AbortSignal,
): Promise<string | undefined> {
  let current = revision
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      // Players are waiting for it.
      return revisionOf(await objects.putStatus(ref, current, status, { priority: true }))
    } catch (error) {
      if (['not-found', 'not-leader', 'closed'].some((code) => FleetError.is(error) && error.code === code))
        return undefined
      logger.debug(
        { err: error, allocation: keyOf(ref) },
        'cannot write the status of a GameServerAllocation; will retry',
      )
      if (!FleetError.is(error, 'conflict')) await api.pause(pauseMs(failures, retryLimits), signal)
      // A write without an answer may have succeeded.
      const found = await objects.get(ref, undefined).catch((failure: unknown) => failure)
      if (FleetError.is(found, 'not-found')) return undefined
      const read = isKubeObject(found) ? readAllocation(found) : undefined
      if (read && (read.uid !== uid || read.finished)) return undefined
      if (read) current = read.revision
    }
  }
  return undefined
}
