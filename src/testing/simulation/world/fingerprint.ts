/** A digest of a run: order, times, random draws, records and events, but no message texts. Pure. */
export class Fingerprint {
  #low = 0x811c9dc5
  #high = 0x01000193

  /** FNV-1a in two lanes: cheap enough for every step. */
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

  /** 16 hexadecimal digits. */
  toString(): string {
    return [this.#high, this.#low].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('')
  }
}
