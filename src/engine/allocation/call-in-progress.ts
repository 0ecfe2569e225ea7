/** A call to `allocate` that has not settled yet, and the means for another call for the same session to wait for it. */
import type { BatchGate } from './batch-gate.js'
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { Allocation } from '../../contracts/sessions.js'
import type { AllocationRequest, NewSession } from '../../rules/model/resources.js'
import type { Selection } from '../../rules/planning/selection.js'
import type { Place } from '../state/entries.js'

export interface AllocateOptions {
  /** How long to wait for a server. */
  readonly waitMs: number
  /** How long the call may take in all if it has to wait until the game has confirmed the session. */
  readonly confirmMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** The servers of an atomic batch are held until each of its sessions has one. */
  readonly gate?: BatchGate | undefined
}

export interface CallInProgress {
  readonly request: AllocationRequest
  /** Of the session. */
  readonly key: string
  readonly session: NewSession
  readonly selection: Selection | undefined
  /** Determines the position in the wait queue. The call keeps its ticket if it has to wait again. */
  readonly ticket: number
  /** True if the call waits until its game has confirmed the session. */
  readonly confirms: boolean
  /** True if it is part of an atomic batch, and may fail because another session gets no server. */
  readonly inBatch: boolean
  /** True once a server has been reserved for the call. If the call waits after that, it has lost the server. */
  hadServer: boolean
  /** The place that the call has taken last. */
  place: Place | undefined
  /** Functions that end the wait of joined calls whose timeout passed while a server was reserved for the session. */
  timedOutJoins: (() => void)[] | undefined
  /** Set in the same tick in which the call is made. */
  result: Promise<Allocation>
}

const pendingForever = new Promise<never>(() => {})

export function newCall(
  key: string,
  request: AllocationRequest,
  selection: Selection | undefined,
  ticket: number,
  { confirmMs, gate }: Pick<AllocateOptions, 'confirmMs' | 'gate'>,
): CallInProgress {
  const confirms = confirmMs !== undefined
  const inBatch = gate !== undefined
  return {
    request,
    key,
    selection,
    ticket,
    confirms,
    inBatch,
    hadServer: false,
    place: undefined,
    session: sessionOf(request),
    timedOutJoins: undefined,
    result: pendingForever,
  }
}

/**
 * Resolves with the result of `call`, or with undefined at the timeout. The timeout is postponed while a server is reserved
 * for the call.
 */
export function resultWithin(
  clock: Clock,
  call: CallInProgress,
  hasServer: () => boolean,
  { waitMs, signal }: AllocateOptions,
): Promise<Allocation | undefined> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
    const cancel = clock.after(waitMs, () => {
      const timeOut = () => resolve(undefined)
      if (hasServer()) (call.timedOutJoins ??= []).push(timeOut)
      else timeOut()
    })
    signal?.addEventListener('abort', abort, { once: true })
    call.result.then(resolve, reject).finally(() => {
      cancel()
      signal?.removeEventListener('abort', abort)
    })
  })
}

/**
 * False for a call that has waited for a server and also has to wait until its game has received the session: there would be no
 * time left for that, and the session would be bound to a server that may not be heard for minutes.
 */
export function mayTakeUnheard({ waitMs, confirmMs }: AllocateOptions): boolean {
  return waitMs <= 0 || confirmMs === undefined
}

function sessionOf({ sessionID, sessionCookie, initialPlayers = noPlayers }: AllocationRequest): NewSession {
  return { id: sessionID, cookie: sessionCookie, initialPlayers, holds: undefined }
}

const noPlayers: readonly string[] = Object.freeze([])
