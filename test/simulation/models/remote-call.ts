/** Simulates a call to the store or the backend, with latency in both directions and every way in which a call can fail. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'

export interface RemoteCallOptions {
  /** The name under which faults are counted. */
  readonly of: 'store' | 'backend'
  readonly isUnavailable: () => boolean
  /** Whether replies are lost although the calls take effect. */
  readonly dropsReplies: () => boolean
  readonly latencyMs: readonly [number, number]
  /** Probability of each fault. */
  readonly faultRate: number
  /** Whether there is a network in between, so that a failed call may still take effect later. */
  readonly remote: boolean
}

/**
 * Applies `effect` at the remote end and returns its result to the host. If the reply is lost, the call fails although the
 * effect has happened. If the effect is late, it happens after the call has failed.
 */
export function remoteCall<T>(
  world: World,
  host: Host,
  options: RemoteCallOptions,
  effect: () => T | Promise<T>,
): Promise<T> {
  const { of, isUnavailable, dropsReplies, latencyMs, faultRate, remote } = options
  const latency = () => world.between(latencyMs[0], latencyMs[1])
  return new Promise<T>((resolve, reject) => {
    const reply = (fn: () => void, ms = latency()) => world.after(ms, () => host.run(fn))
    const fail = (why: string, ms?: number) => reply(() => reject(new FleetError('unavailable', `${of}: ${why}`)), ms)
    const apply = async (done: (result: { value: T } | { error: unknown }) => void) => {
      try {
        done({ value: await effect() })
      } catch (error) {
        done({ error })
      }
    }
    const settle = (result: { value: T } | { error: unknown }) =>
      reply(() => ('error' in result ? reject(result.error) : resolve(result.value)))

    world.after(latency(), () => {
      if (isUnavailable()) return fail('unavailable', world.between(1, 50))
      if (dropsReplies()) return void apply(() => fail('reply lost'))
      if (world.fault(`${of}: call refused`, faultRate)) return fail('refused')
      if (world.fault(`${of}: reply lost`, faultRate)) return void apply(() => fail('reply lost'))
      if (remote && world.fault(`${of}: effect after failure`, faultRate)) {
        world.after(world.between(1, 3_000), () => void apply(() => {}))
        return fail('timed out', world.between(1, 500))
      }
      if (world.fault(`${of}: late reply`, faultRate)) {
        return void apply((result) => world.after(world.between(100, 8_000), () => settle(result)))
      }
      if (of === 'backend' && world.fault(`${of}: no reply`, faultRate / 2)) return void apply(() => {})
      return void apply(settle)
    })
  })
}
