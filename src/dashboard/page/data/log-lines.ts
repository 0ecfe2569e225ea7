/** Lines of a log with where they come from, as the API gives them with `origin`. Pure. */

export interface LogLine {
  readonly text: string
  /** Wall time in ms. Undefined if the backend does not know. */
  readonly at: number | undefined
  readonly isError: boolean
}

/** A backend of the app's own may know nothing of `origin`, and gives the line as it is. */
const origin = /^(-|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (-|stdout|stderr) /

export function logLine(line: string): LogLine {
  const [whole = '', time = '', stream] = origin.exec(line) ?? []
  const at = Date.parse(time)
  return { text: line.slice(whole.length), at: Number.isNaN(at) ? undefined : at, isError: stream === 'stderr' }
}
