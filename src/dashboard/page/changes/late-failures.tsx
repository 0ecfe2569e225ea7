/** What has failed after its dialog was closed. */
import { dismiss, lateFailures } from './begun.js'

export function LateFailures() {
  return (
    <div role="alert">
      {lateFailures.value.map(({ id, what, message }) => (
        <div key={id} class="late-failure">
          <p>
            <b>{what}:</b> {message}
          </p>
          <button type="button" class="small" onClick={() => dismiss(id)}>
            Dismiss
          </button>
        </div>
      ))}
    </div>
  )
}
