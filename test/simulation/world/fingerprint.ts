/** A digest of a run. Covers order, times, random draws, records and events, but not message texts. Pure. */
export class Fingerprint {
  #low = 0x811c9dc5
  #high = 0x01000193

  /** Hashes with two lanes of FNV-1a, which is cheap enough to do at every step. */
  add(...parts: readonly (string | number | undefined)[]): void {
    for (const part of parts) {
      const text = `${part ?? ''};`
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i)
        this.#low = Math.imul(this.#low ^ code, 0x01000193)
        this.#high = Math.imul(this.#high ^ code, 0x85ebca6b) ^ (this.#low >>> 13)
      }
    }
  }

  /** Returns 16 hexadecimal digits. */
  toString(): string {
    return [this.#high, this.#low].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('')
  }
}
