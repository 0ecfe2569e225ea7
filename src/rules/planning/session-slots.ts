/** How many servers the sessions of a build need, if each server takes several at the same time. Pure. */
import type { BuildSpec } from '../model/resources.js'

/** The number of servers for so many sessions, if each takes `perServer`. */
export function serversFor(sessions: number, perServer: number): number {
  return Math.ceil(sessions / perServer)
}

export interface SessionSlots {
  /** Sessions for which running servers have room. */
  readonly free: number
  /** Sessions that a new server of the build takes. */
  readonly perServer: number
}

/**
 * The spec with as many servers standing by as `standingBy` and `standingBySessions` both ask for, at most `max`: what is free on running
 * servers is not needed on others.
 */
export function withSessionsStandingBy<
  S extends Pick<BuildSpec, 'standingBy' | 'standingBySessions'> & Pick<BuildSpec, 'max'>,
>(spec: S, { free, perServer }: SessionSlots): S {
  const { max, standingBy, standingBySessions = 0 } = spec
  const wanted = Math.min(max, serversFor(Math.max(0, standingBySessions - free), perServer))
  return wanted > standingBy ? { ...spec, standingBy: wanted } : spec
}
