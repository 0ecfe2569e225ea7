/** Runs the game's health callback and keeps its failures out of the heartbeat loop. */
import type { Logger } from '../contracts/logger.js'
import { isPromise } from '../rules/model/realms.js'

export type HealthCheck = () => 'Healthy' | 'Unhealthy'

/**
 * If the callback throws, the server reports Unhealthy. If it returns a promise (possible in plain JavaScript), the server
 * reports Healthy. Either mistake is logged once.
 */
export function healthCheck(health: (() => boolean) | undefined, logger: Logger): HealthCheck {
  if (health === undefined) return () => 'Healthy'
  let logged = false
  const logOnce = (err: unknown, message: string) => {
    if (!logged) logger.error({ err }, message)
    logged = true
  }
  return () => {
    try {
      const verdict: unknown = health()
      if (isPromise(verdict)) {
        verdict.catch((err: unknown) => logOnce(err, 'the health callback rejected'))
        logOnce(undefined, 'the health callback returned a promise, which counts as healthy; return true or false')
      } else logged = false
      return verdict ? 'Healthy' : 'Unhealthy'
    } catch (err) {
      logOnce(err, 'the health callback threw, which counts as unhealthy')
      return 'Unhealthy'
    }
  }
}
