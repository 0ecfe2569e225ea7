/** The ends of sessions that games have reported and that wait to be stored. */
import type { EndedSession } from '../../rules/game/heartbeat.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { endedNumber, endsSession } from '../../rules/lifecycle/sessions.js'
import type { Server } from '../../rules/model/resources.js'
import type { ServerEntry } from '../state/entries.js'

/** Those that one write contains. */
export interface WrittenEnds {
  readonly one: EndedSession | undefined
  readonly several: readonly EndedSession[] | undefined
}

export function endsOf({ sessionEnd, sessionEnds }: ServerEntry): WrittenEnds {
  return sessionEnd || sessionEnds ? { one: sessionEnd, several: sessionEnds } : noEnds
}

export const noEnds: WrittenEnds = Object.freeze({ one: undefined, several: undefined })

/** A server that is terminating keeps its sessions until it is gone. */
export function withoutEnded(record: Server, { one, several }: WrittenEnds, now: number): Server {
  const ended = several ?? (one && [one])
  return ended ? transition(record, { type: 'sessionsEnded', ended }, now) : record
}

/**
 * Call when a write has taken effect. Reports that arrived meanwhile are not included in it, and go on waiting. Returns false if that is
 * true of all.
 */
export function settleEnds(entry: ServerEntry, written: Server, { one, several }: WrittenEnds): boolean {
  if (several) {
    const left = entry.sessionEnds?.filter((ended) => !several.includes(ended)) ?? []
    entry.sessionEnds = left.length > 0 ? left : undefined
    return true
  }
  const { sessionEnd } = entry
  if (!sessionEnd) return false
  if (!one || (endedNumber(written) !== sessionEnd.number && endsSession(entry.record, sessionEnd))) return false
  entry.sessionEnd = undefined
  return true
}

export function forgetEnds(entry: ServerEntry): void {
  entry.sessionEnd = undefined
  entry.sessionEnds = undefined
}
