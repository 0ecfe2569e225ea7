/** Validates and copies requests about the seats of sessions. Pure. */
import { defaultHoldMs } from '../lifecycle/seats.js'
import type { ServerSelector } from '../model/allocation.js'
import { joinRequest, roomQuery, seatRelease, seatRequest } from '../schemas/seats.js'
import { type Checked, valid } from './problem.js'
import { checkSelection } from './selection.js'
import { compile, type Validator } from './validator.js'

/** In which sessions to look for room. Exactly one is set. */
export interface SessionTarget {
  readonly buildID?: string
  readonly select?: readonly ServerSelector[]
}

export interface SeatRequest {
  readonly players: readonly string[]
  readonly holdMs: number
}

export interface JoinRequest extends SessionTarget, SeatRequest {
  readonly orAllocate: boolean
  readonly sessionID?: string
  readonly sessionCookie?: string
}

export interface RoomQuery extends SessionTarget {
  readonly seats: number
  readonly limit: number
}

const defaultLimit = 100

const checkSeats: Validator<Pick<SeatRequest, 'players'> & Partial<SeatRequest>> = compile(seatRequest)
const checkRelease: Validator<Pick<SeatRequest, 'players'>> = compile(seatRelease)
const checkJoin: Validator<SessionTarget & Pick<JoinRequest, 'players'> & Partial<JoinRequest>> = compile(joinRequest)
const checkQuery: Validator<SessionTarget & Partial<Pick<RoomQuery, 'seats' | 'limit'>>> = compile(roomQuery)

export function readSeatRequest(body: unknown): Checked<SeatRequest> {
  const request = checkSeats(body)
  if (!request.ok) return request
  const { players, holdMs = defaultHoldMs } = request.value
  return valid({ players: [...players], holdMs })
}

/** Returns the players whose seats are released. */
export function readSeatRelease(body: unknown): Checked<readonly string[]> {
  const release = checkRelease(body)
  return release.ok ? valid([...release.value.players]) : release
}

export function readJoinRequest(body: unknown): Checked<JoinRequest> {
  const request = checkJoin(body)
  if (!request.ok) return request
  const { players, holdMs = defaultHoldMs, orAllocate = false, sessionCookie, sessionID } = request.value
  const session = {
    orAllocate,
    ...(sessionID !== undefined && { sessionID }),
    ...(sessionCookie !== undefined && { sessionCookie }),
  }
  return (
    checkSelection(request.value) ?? valid({ ...targetOf(request.value), players: [...players], holdMs, ...session })
  )
}

export function readRoomQuery(body: unknown): Checked<RoomQuery> {
  const query = checkQuery(body)
  if (!query.ok) return query
  const { seats = 1, limit = defaultLimit } = query.value
  return checkSelection(query.value) ?? valid({ ...targetOf(query.value), seats, limit })
}

function targetOf({ buildID, select }: SessionTarget): SessionTarget {
  return { ...(buildID !== undefined && { buildID }), ...(select && { select: structuredClone(select) }) }
}
