/** Checks what a build may not have together with several sessions for each server. Pure. */
import type { BuildSpec } from '../model/resources.js'
import { sessionsPerServer } from '../lifecycle/sessions.js'
import { invalid, type Refused } from './problem.js'

type Spec = Pick<BuildSpec, 'sessionsPerServer' | 'seatsPerSession' | 'claimSeconds' | 'health'>

/**
 * Games report their players for each server, so where a server has several sessions, no one knows in which of them a player is. And a
 * session that takes too long must not end the others on its server.
 */
export function checkSeveralSessions(spec: Spec): Refused | undefined {
  const perServer = sessionsPerServer(spec)
  if (perServer === 1) return undefined
  const together = `cannot be used with spec.sessionsPerServer ${perServer}`
  if (spec.seatsPerSession !== undefined) {
    return invalid('spec.seatsPerSession', `${together}, because games report players by server and not by session`)
  }
  if (spec.claimSeconds !== undefined) {
    return invalid('spec.claimSeconds', `${together}, because games report players by server and not by session`)
  }
  if (spec.health?.sessionSeconds !== undefined) {
    return invalid('spec.health.sessionSeconds', `${together}, because it would end the server's other sessions too`)
  }
  return undefined
}
