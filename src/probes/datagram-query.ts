/** Carries out a query over datagrams, which may be lost, repeated and forged. */
import type { Clock } from '../contracts/clock.js'
import type { QueryStep } from '../rules/query/query-step.js'
import { type Attempt, onEnd } from './attempts.js'
import type { DatagramLine, LineEvents } from './datagram-lines.js'

/** Of one query, from the address that was asked. A game sends a few; what sends more does not get the host's time. */
const maxDatagrams = 200
const longestRetryMs = 1_000

/**
 * Resolves with the result. Each request is sent again once if it is not answered within a third of the time, or 1 s. A wrong answer may be
 * forged, so the right one is still waited for; the attempt's reason says what was wrong.
 */
export function runDatagramQuery<T>(
  clock: Clock,
  first: QueryStep<T>,
  attempt: Attempt,
  open: (events: LineEvents) => DatagramLine,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const endsAtMs = clock.elapsed() + attempt.timeoutMs
    let step = first
    let datagrams = 0
    let cancelRetry = () => {}

    const line = open({
      onDatagram(datagram) {
        if (++datagrams > maxDatagrams) return
        const answer = step.read(datagram)
        switch (answer.kind) {
          case 'done':
            return end(answer.result)
          case 'next':
            return begin(answer.step)
          case 'part':
            step = answer.step
            return
          case 'wrong':
            attempt.reason = `the answer ${answer.reason}`
            return
          case 'stale':
            return
        }
      },
      onError(error) {
        stop()
        reject(error)
      },
    })
    const stop = () => {
      cancelRetry()
      line.close()
    }
    const end = (result: T) => {
      stop()
      resolve(result)
    }
    const begin = (next: QueryStep<T>) => {
      step = next
      cancelRetry()
      line.send(step.request)
      const { otherwise } = step
      // What is known already must not be lost to the end of the time.
      const thirdMs = (otherwise === undefined ? attempt.timeoutMs : endsAtMs - clock.elapsed()) / 3
      const retryMs = Math.min(longestRetryMs, thirdMs)
      cancelRetry = clock.after(retryMs, () => {
        line.send(step.request)
        if (otherwise !== undefined) cancelRetry = clock.after(retryMs, () => end(otherwise))
      })
    }
    onEnd(attempt, stop)
    begin(first)
  })
}
