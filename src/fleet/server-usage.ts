/** What running servers use: CPU and memory, measured by the backend when somebody asks. */
import type { Backend, InstanceUsage } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import type { ServerUsage } from '../contracts/fleet.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { unlessAborted } from '../util/signals.js'

/** How long a measurement serves as the beginning of the next one, and how many are remembered. */
const rememberedMs = 60_000
const maxRemembered = 1_000
/** How long the first measurement of a server takes. Shorter, the system's clock ticks show. */
const firstMs = 500

interface Sample {
  /** Elapsed ms. */
  readonly at: number
  readonly cpuSeconds: number
}

export class UsageMeter {
  readonly #backend: Backend
  readonly #clock: Clock
  readonly #samples = new Map<string, Sample>()

  constructor(backend: Backend, clock: Clock) {
    this.#backend = backend
    this.#clock = clock
  }

  /** Rejects with `unsupported` and as the backend does. */
  async read(ref: Ref, signal: AbortSignal | undefined): Promise<ServerUsage> {
    const { at = -Infinity, cpuSeconds } = this.#samples.get(keyOf(ref)) ?? {}
    const isRecent = this.#clock.elapsed() - at < rememberedMs
    const before = isRecent && cpuSeconds !== undefined ? { at, cpuSeconds } : undefined
    const now = await this.#sample(ref, signal)
    if (now.cpuCores !== undefined) return this.#usage(now.memoryBytes, now.cpuCores)
    if (before && now.at - before.at >= firstMs) return this.#usage(now.memoryBytes, coresBetween(before, now))
    await unlessAborted(new Promise<void>((resolve) => void this.#clock.after(firstMs, resolve)), signal)
    const later = await this.#sample(ref, signal)
    return this.#usage(later.memoryBytes, coresBetween(now, later))
  }

  #usage(memoryBytes: number, cpuCores: number): ServerUsage {
    return { at: this.#clock.now(), memoryBytes, cpuCores }
  }

  async #sample(ref: Ref, signal: AbortSignal | undefined): Promise<Sample & InstanceUsage> {
    const { name, usage } = this.#backend
    if (!usage) throw new FleetError('unsupported', `the ${name} backend does not measure what its servers use`)
    const measured = await usage.call(this.#backend, ref, signal ? { signal } : {})
    const sample = { at: this.#clock.elapsed(), cpuSeconds: measured.cpuSeconds ?? 0 }
    const key = keyOf(ref)
    this.#samples.delete(key)
    this.#samples.set(key, sample)
    for (const oldest of this.#samples.keys()) {
      if (this.#samples.size <= maxRemembered) break
      this.#samples.delete(oldest)
    }
    return { ...measured, ...sample }
  }
}

/** Never negative: an instance of the same name may have begun in between. */
function coresBetween(before: Sample, after: Sample): number {
  return Math.max(0, (1_000 * (after.cpuSeconds - before.cpuSeconds)) / Math.max(1, after.at - before.at))
}
