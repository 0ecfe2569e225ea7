/** Lines of a log with where they come from, as the API gives them with `origin`. Pure. */

export interface LogLine {
  readonly text: string
  /** Wall time in ms. Undefined if the backend does not know. */
  readonly at: number | undefined
  readonly isError: boolean
}

const origin = /^(\S+) (\S+) /

export function logLine(line: string): LogLine {
  const [whole = '', time = '', stream] = origin.exec(line) ?? []
  const at = Date.parse(time)
  return { text: line.slice(whole.length), at: Number.isNaN(at) ? undefined : at, isError: stream === 'stderr' }
}
