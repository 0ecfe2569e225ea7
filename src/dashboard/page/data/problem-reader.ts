/** Reads what is wrong with the fleet: soon after what may have changed it, and at most once a second. */
import { FleetError } from '../../../contracts/errors.js'
import type { Fleet } from '../../../contracts/fleet.js'
import type { FleetProblem } from '../../../rules/model/problems.js'
import { atMostEvery } from './at-most-every.js'

export interface KnownProblems {
  /** The worst first. Undefined until they have been read. */
  readonly list: readonly FleetProblem[] | undefined
  /** Set while they cannot be read: `list` is what was wrong at `at`, wall time in ms. */
  readonly failure?: { readonly error: FleetError; readonly at: number | undefined }
}

export const nothingRead: KnownProblems = { list: undefined }

const soonMs = 1_000
const againMs = 5_000

export interface ProblemReader {
  /** Reads, soon. */
  request(): void
  /** What is being read for an earlier caller or connection does not count. */
  restart(signal: AbortSignal): void
}

export function problemReader(fleet: Pick<Fleet, 'problems'>, state: { value: KnownProblems }): ProblemReader {
  let running: AbortSignal | undefined
  let readAt: number | undefined
  let isBusy = false
  let isDue = false
  const read = async () => {
    if (isBusy) return void (isDue = true)
    const signal = running
    if (signal === undefined || signal.aborted) return
    isBusy = true
    isDue = false
    const at = Date.now()
    try {
      const list = await fleet.problems({ signal })
      if (signal === running) {
        state.value = { list }
        readAt = at
      }
    } catch (thrown) {
      if (signal === running && !signal.aborted) failed(thrown)
    } finally {
      isBusy = false
      if (isDue || signal !== running) request()
    }
  }
  const failed = (thrown: unknown) => {
    const error = FleetError.is(thrown) ? thrown : new FleetError('internal', String(thrown))
    // This host's app shows a fleet that does not say what is wrong.
    if (error.code === 'not-found') return void (state.value = { list: [] })
    state.value = { list: state.value.list, failure: { error, at: readAt } }
    setTimeout(request, againMs)
  }
  const request = atMostEvery(soonMs, () => void read())
  return {
    request,
    restart(signal) {
      running = signal
      readAt = undefined
      request()
    },
  }
}
