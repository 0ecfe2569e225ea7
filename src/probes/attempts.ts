/** Runs probes: not too many at the same time, each within its time, and ends those in progress when the prober is closed. */
import type { Clock } from '../contracts/clock.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { isError } from '../rules/model/values.js'
import { limiter } from '../util/limiter.js'

/** A probe in progress. */
export interface Attempt {
  readonly timeoutMs: number
  /** Fires at the end of the time, when the prober is closed, and when the probe has its result. */
  readonly signal: AbortSignal
  /** What went wrong so far: the reason of a timeout, instead of "no answer within 2 s". */
  reason: string | undefined
}

/** What a probe throws to say why it failed. The message completes "… failed: ". */
export class ProbeFailure extends Error {
  override readonly name = 'ProbeFailure'
}

/** More than a fleet needs, and fewer than a process may have open files. */
const maxConcurrent = 256

const reasonsByCode: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  ENOTFOUND: 'the host name does not resolve',
  EAI_AGAIN: 'the host name does not resolve',
}

/** Where the machine of the game, or the way to it, may be what fails. */
const unheardCodes: ReadonlySet<string> = new Set([
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EMFILE',
  'ENFILE',
])

export class Attempts {
  readonly #clock: Clock
  readonly #limited = limiter(maxConcurrent)
  readonly #ends = new Set<(reason: string) => void>()
  #isClosed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `what` names the probe in the error. Rejects as `Prober.check` does. The time begins when it is this probe's turn. */
  run<T>(what: string, timeoutMs: number, probe: (attempt: Attempt) => Promise<T>): Promise<T> {
    return this.#limited(() => this.#run(what, timeoutMs, probe))
  }

  close(): void {
    this.#isClosed = true
    for (const end of this.#ends) end('the prober was closed')
  }

  #run<T>(what: string, timeoutMs: number, probe: (attempt: Attempt) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const fail = (code: 'invalid' | 'unavailable', reason: string, cause?: unknown) =>
        reject(new FleetError(code, `${what} failed: ${reason}`, { cause }))
      if (this.#isClosed) return fail('unavailable', 'the prober was closed')
      const aborter = new AbortController()
      const attempt: Attempt = { timeoutMs, signal: aborter.signal, reason: undefined }
      const finish = () => {
        cancel()
        this.#ends.delete(end)
        // Without a reason, Node creates an error with a stack trace for each probe.
        aborter.abort('over')
      }
      // The probe's own promise may never settle then.
      const end = (reason: string) => {
        fail(attempt.reason === undefined ? 'unavailable' : 'invalid', reason)
        finish()
      }
      const cancel = this.#clock.after(timeoutMs, () =>
        end(attempt.reason ?? `no answer within ${timeoutMs / 1_000} s`),
      )
      this.#ends.add(end)
      // Wrapped, so that what is thrown synchronously, such as for an impossible port, is a failure as well.
      const run = async () => probe(attempt)
      run()
        .then(resolve, (error: unknown) =>
          fail(unheardCodes.has(codeOf(error)) ? 'unavailable' : 'invalid', reasonOf(error), error),
        )
        .finally(finish)
    })
  }
}

/** The words for what the system reports; any other error's own. */
function reasonOf(error: unknown): string {
  return reasonsByCode[codeOf(error)] ?? messageOf(error)
}

/** The system's code, such as ECONNREFUSED, or an empty string. */
function codeOf(error: unknown): string {
  return isError(error) && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/** Calls `fn` when the attempt ends. */
export function onEnd({ signal }: Attempt, fn: () => void): void {
  if (signal.aborted) fn()
  else signal.addEventListener('abort', fn, { once: true })
}
