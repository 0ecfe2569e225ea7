/** Counts durations in bins that grow by a tenth, so that quantiles of any number of durations take constant memory. */

const growth = 1.1
/** The last bin also has all longer durations: those over about three hours. */
const binCount = 170

export class DurationHistogram {
  readonly #bins = new Uint32Array(binCount)
  #count = 0
  #longest = 0

  /** `ms` is at least 0. */
  add(ms: number): void {
    const bin = ms <= 1 ? 0 : Math.min(binCount - 1, Math.ceil(Math.log(ms) / Math.log(growth)))
    this.#bins[bin] = (this.#bins[bin] ?? 0) + 1
    this.#count++
    this.#longest = Math.max(this.#longest, ms)
  }

  /**
   * The duration that this share of all durations does not exceed, in whole ms; at most a tenth too long, and never longer than the
   * longest. 0 if there are none.
   */
  quantile(share: number): number {
    let left = Math.ceil(share * this.#count)
    if (left === 0) return 0
    let bin = 0
    while (bin < binCount - 1 && (left -= this.#bins[bin] ?? 0) > 0) bin++
    return bin === binCount - 1 ? this.#longest : Math.round(Math.min(this.#longest, growth ** bin))
  }

  clear(): void {
    this.#bins.fill(0)
    this.#count = 0
    this.#longest = 0
  }
}
