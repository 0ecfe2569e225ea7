/** Lines of a log, with what the backend knows of them. */
import { expect, it } from 'vitest'
import { logLine } from '../../../src/dashboard/page/data/log-lines.js'

it.each([
  ['2026-01-02T03:04:05.123456789Z stderr no map', Date.UTC(2026, 0, 2, 3, 4, 5, 123), true, 'no map'],
  ['2026-01-02T03:04:05.123456789Z stdout  two blanks', Date.UTC(2026, 0, 2, 3, 4, 5, 123), false, ' two blanks'],
  ['2026-01-02T03:04:05Z - of a pod', Date.UTC(2026, 0, 2, 3, 4, 5), false, 'of a pod'],
  ['- - stderr is a word here', undefined, false, 'stderr is a word here'],
  ['- - ', undefined, false, ''],
  ['two words of a backend without origin', undefined, false, 'two words of a backend without origin'],
])('%j', (line, at, isError, text) => {
  expect(logLine(line)).toEqual({ text, at, isError })
})
