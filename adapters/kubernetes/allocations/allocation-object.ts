/** Reads GameServerAllocation objects, and says what their status becomes. Pure. */
import type { GrantedAllocation } from '../../../src/contracts/sessions.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { allocationRequest } from '../../../src/rules/schemas/allocation.js'
import { type Fields, fieldsAt, numberAt, rfc3339, textAt, timeAt } from '../client/fields.js'
import { type KubeObject, refOf, revisionOf } from '../client/kube-objects.js'

/** The same as in the definition, for objects of definitions without defaults. */
export const allocationDefaults = { waitSeconds: 60, ttlSecondsAfterFinished: 3_600 } as const

export interface AllocationObject {
  readonly ref: Ref
  readonly uid: string
  readonly revision: string
  /** Increases when somebody edits the spec. */
  readonly generation: number
  /** What is requested, as in `Fleet.allocate`. */
  readonly request: Fields & { readonly sessionID: unknown }
  /** Wall time in ms until which to wait for a server. */
  readonly waitUntil: number
  /** How long the object stays after it is finished. */
  readonly ttlMs: number
  /** Absent while it is not finished. */
  readonly finished?: FinishedState
}

export interface FinishedState {
  /** Wall times in ms. */
  readonly at: number
  readonly removeAt: number
  /** Generation of the spec that was carried out. */
  readonly generation: number
}

export function readAllocation(object: KubeObject): AllocationObject {
  const { uid = '', generation = 1, creationTimestamp = '' } = object.metadata
  const [spec, status] = [fieldsAt(object, 'spec'), fieldsAt(object, 'status')]
  const { waitSeconds, ttlSecondsAfterFinished } = allocationDefaults
  const createdAt = Date.parse(creationTimestamp)
  const isFinished = status['state'] === 'Allocated' || status['state'] === 'Failed'
  const finishedAt = timeAt(status, 'finishedAt') ?? createdAt
  const ttlMs = (numberAt(spec, 'ttlSecondsAfterFinished') ?? ttlSecondsAfterFinished) * 1_000
  return {
    ref: refOf(object),
    uid,
    generation,
    revision: revisionOf(object),
    request: requestOf(spec, status, uid),
    ttlMs,
    waitUntil: createdAt + (numberAt(spec, 'waitSeconds') ?? waitSeconds) * 1_000,
    ...(isFinished && {
      finished: {
        at: finishedAt,
        removeAt: finishedAt + ttlMs,
        generation: numberAt(status, 'observedGeneration') ?? generation,
      },
    }),
  }
}

/** Once a host has begun, the sessionID is in the status, so that an edit of the spec does not make another session of it. */
function requestOf(spec: Fields, status: Fields, uid: string): AllocationObject['request'] {
  const fields = Object.keys(allocationRequest.properties).filter((name) => spec[name] !== undefined)
  const request = Object.fromEntries(fields.map((name) => [name, spec[name]]))
  return { ...request, sessionID: textAt(status, 'sessionID') ?? spec['sessionID'] ?? uid }
}

function begun({ request: { sessionID }, generation }: AllocationObject): object {
  return { ...(typeof sessionID === 'string' && { sessionID }), observedGeneration: generation }
}

export function waitingStatus(object: AllocationObject, error: unknown): object {
  return { ...begun(object), state: 'Waiting', ...reasonOf(error) }
}

export function failedStatus(object: AllocationObject, error: unknown, now: number): object {
  return { ...begun(object), state: 'Failed', ...reasonOf(error), finishedAt: rfc3339(now) }
}

export function allocatedStatus(
  object: AllocationObject,
  { allocation, node }: GrantedAllocation,
  now: number,
): object {
  const { server, address, ports, buildMismatch } = allocation
  const mismatch =
    buildMismatch && `the session already had a server of the build ${buildMismatch.actual}: ${keyOf(server)}`
  return {
    ...begun(object),
    state: 'Allocated',
    ...(mismatch !== undefined && { reason: 'build-mismatch', message: mismatch }),
    gameServer: server.name,
    address,
    ports,
    ...(node !== undefined && { nodeName: node }),
    finishedAt: rfc3339(now),
  }
}

function reasonOf(error: unknown): { readonly reason: string; readonly message: string } {
  return { reason: FleetError.is(error) ? error.code : 'internal', message: messageOf(error) }
}
