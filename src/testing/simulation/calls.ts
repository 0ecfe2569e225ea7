/** How a call travels in the simulation: latency both ways, and every way in which it can go wrong. */
import { FleetError } from '../../contracts/errors.js'
import type { Host } from './host.js'
import type { World } from './world.js'

export interface CallOptions {
  /** What is called: `store` or `backend`. Faults are counted under its name. */
  readonly of: string
  readonly away: () => boolean
  /** What is asked for happens, and no answer comes back. */
  readonly mute: () => boolean
  readonly latencyMs: readonly [number, number]
  /** Probability of each fault. */
  readonly faultiness: number
  /** True when a call that was told to have failed may still take effect: on the way there is a network. */
  readonly far: boolean
}

/**
 * Carries out `effect` at the other end and brings its result back to the host. A lost reply has had its effect; a late
 * effect comes after the host was told that the call failed.
 */
export function call<T>(world: World, host: Host, options: CallOptions, effect: () => T | Promise<T>): Promise<T> {
  const { of, away, mute, latencyMs, faultiness, far } = options
  const latency = () => world.between(latencyMs[0], latencyMs[1])
  return new Promise<T>((resolve, reject) => {
    const answer = (fn: () => void, ms = latency()) => world.after(ms, () => host.run(fn))
    const fail = (why: string, ms?: number) => answer(() => reject(new FleetError('unavailable', `${of}: ${why}`)), ms)
    const carryOut = async (reply: (result: { value: T } | { error: unknown }) => void) => {
      try {
        reply({ value: await effect() })
      } catch (error) {
        reply({ error })
      }
    }
    const pass = (result: { value: T } | { error: unknown }) =>
      answer(() => ('error' in result ? reject(result.error) : resolve(result.value)))

    world.after(latency(), () => {
      if (away()) return fail('away', world.between(1, 50))
      if (mute()) return void carryOut(() => fail('reply lost'))
      if (world.fault(`${of}: refused before effect`, faultiness)) return fail('refused')
      if (world.fault(`${of}: reply lost`, faultiness)) return void carryOut(() => fail('reply lost'))
      if (far && world.fault(`${of}: effect after failure`, faultiness)) {
        world.after(world.between(1, 3_000), () => void carryOut(() => {}))
        return fail('timed out', world.between(1, 500))
      }
      if (world.fault(`${of}: reply late`, faultiness)) {
        return void carryOut((result) => world.after(world.between(100, 8_000), () => pass(result)))
      }
      if (of === 'backend' && world.fault(`${of}: never answers`, faultiness / 2)) return void carryOut(() => {})
      return void carryOut(pass)
    })
  })
}
