/** One signal for two reasons to stop. `AbortSignal.any` would leave something behind on a long-lived one at every use. */

export interface EitherSignal {
  readonly signal: AbortSignal
  /** Stops as if one of the two had fired. */
  abort(reason?: unknown): void
  /** Lets go of both. */
  release(): void
}

export function eitherSignal(one: AbortSignal, other: AbortSignal | undefined): EitherSignal {
  const either = new AbortController()
  const onOne = () => either.abort(one.reason)
  const onOther = () => either.abort(other?.reason)
  if (one.aborted) onOne()
  if (other?.aborted) onOther()
  one.addEventListener('abort', onOne)
  other?.addEventListener('abort', onOther)
  return {
    signal: either.signal,
    abort: (reason) => either.abort(reason),
    release() {
      one.removeEventListener('abort', onOne)
      other?.removeEventListener('abort', onOther)
    },
  }
}
