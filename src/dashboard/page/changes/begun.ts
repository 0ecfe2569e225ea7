/** Calls that take as long as a match, such as a drain: they fail soon, or have begun. */
import { signal } from '@preact/signals'

interface LateFailure {
  readonly id: number
  readonly what: string
  readonly message: string
}

/** What has failed after it had begun, newest last, until the reader dismisses it. */
export const lateFailures = signal<readonly LateFailure[]>([])

const begunMs = 1_500
const maxKept = 5
let lastID = 0

/**
 * Resolves when the call has succeeded or begun. Rejects if it fails before; if it fails later, `lateFailures` says so. `what`
 * begins the sentence that says what has failed.
 */
export async function begun(what: string, call: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  let hasBegun = false
  const later = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      hasBegun = true
      resolve()
    }, begunMs)
  })
  call.catch((error: unknown) => {
    if (!hasBegun) return
    const message = error instanceof Error ? error.message : String(error)
    lateFailures.value = [...lateFailures.value, { id: ++lastID, what, message }].slice(-maxKept)
  })
  await Promise.race([call, later]).finally(() => clearTimeout(timer))
}

export function dismiss(id: number): void {
  lateFailures.value = lateFailures.value.filter((one) => one.id !== id)
}
