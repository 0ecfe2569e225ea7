/** The log of a server as it is written, with pause and search. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { FleetError } from '../../../contracts/errors.js'
import type { Ref } from '../../../rules/model/resources.js'
import { connections, fleet } from '../data/live.js'
import { type LogLine, logLine } from '../data/log-lines.js'
import { plural } from '../data/words.js'
import { Clock, Section } from '../parts/parts.js'
import { VirtualList } from '../parts/virtual-list.js'
import { DownloadLog, maxWrapped, WrappedLines } from './server/log-tools.js'

const firstLines = 1_000
const maxLines = 10_000
const batchMs = 150
const rowHeight = 20

export function ServerLog({ of, isRunning }: { readonly of: Ref; readonly isRunning: boolean }) {
  const lines = useSignal<readonly LogLine[]>([])
  const problem = useSignal('')
  const isPaused = useSignal(false)
  const isWrapped = useSignal(false)
  const text = useSignal('')
  /** Lines that came while it was paused. */
  const held = useRef<LogLine[]>([])
  const heldCount = useSignal(0)
  const show = (more: readonly LogLine[]) => {
    lines.value = [...lines.peek(), ...more].slice(-maxLines)
  }
  useEffect(() => {
    const stop = new AbortController()
    lines.value = []
    held.current = []
    heldCount.value = 0
    void follow(of, stop.signal, {
      onLines: (more) => {
        if (!isPaused.peek()) return show(more)
        held.current = [...held.current, ...more].slice(-maxLines)
        heldCount.value = held.current.length
      },
      onProblem: (message) => (problem.value = message),
    })
    return () => stop.abort()
    // The log's own stream ends with the connection.
  }, [isRunning, connections.value])
  const pause = () => {
    isPaused.value = !isPaused.value
    if (isPaused.value) return
    show(held.current)
    held.current = []
    heldCount.value = 0
  }
  const wanted = text.value.toLowerCase()
  const shown = wanted === '' ? lines.value : lines.value.filter(({ text }) => text.toLowerCase().includes(wanted))
  return (
    <Section
      title="Log"
      aside={
        <div class="filters">
          <input
            type="search"
            placeholder="Search"
            aria-label="Search the log"
            value={text}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
          <button type="button" aria-pressed={isPaused} onClick={pause}>
            {isPaused.value ? `Resume${heldCount.value > 0 ? ` (${heldCount.value})` : ''}` : 'Pause'}
          </button>
          <button type="button" aria-pressed={isWrapped} onClick={() => (isWrapped.value = !isWrapped.value)}>
            Wrap
          </button>
          <DownloadLog of={of} onProblem={(message) => (problem.value = message)} />
        </div>
      }
    >
      {problem.value === '' ? null : <p class="problem">{problem.value}</p>}
      {shown.length === 0 ? (
        <p class="quiet">{lines.value.length === 0 ? 'Nothing has been printed yet.' : 'No line has this text.'}</p>
      ) : isWrapped.value ? (
        <WrappedLines
          label={`Log, ${plural(Math.min(shown.length, maxWrapped), 'line')}`}
          lines={shown}
          line={(line) => <Content of={line} wanted={wanted} />}
        />
      ) : (
        <VirtualList
          label={`Log, ${plural(shown.length, 'line')}`}
          role="log"
          class="log"
          count={shown.length}
          rowHeight={rowHeight}
          followsEnd
          row={(index) => (
            <div class="line" key={index}>
              <Content of={shown[index]} wanted={wanted} />
            </div>
          )}
        />
      )}
    </Section>
  )
}

function Content({ of, wanted }: { readonly of: LogLine | undefined; readonly wanted: string }) {
  if (of === undefined) return null
  const text = marked(of.text, wanted)
  return (
    <>
      {of.at === undefined ? null : (
        <span class="log-time">
          <Clock at={of.at} />{' '}
        </span>
      )}
      {of.isError ? (
        <span class="log-error">
          <span class="hidden">stderr: </span>
          {text}
        </span>
      ) : (
        text
      )}
    </>
  )
}

/** The line in parts: what was searched for is marked. */
function marked(line: string, wanted: string) {
  const at = wanted === '' ? -1 : line.toLowerCase().indexOf(wanted)
  if (at < 0) return line === '' ? ' ' : line
  const end = at + wanted.length
  return [line.slice(0, at), <mark key="mark">{line.slice(at, end)}</mark>, line.slice(end)]
}

interface LogHandlers {
  readonly onLines: (lines: readonly LogLine[]) => void
  readonly onProblem: (message: string) => void
}

async function follow(of: Ref, signal: AbortSignal, { onLines, onProblem }: LogHandlers): Promise<void> {
  let batch: LogLine[] = []
  const flush = () => {
    if (!signal.aborted) onLines(batch)
    batch = []
  }
  try {
    onProblem('')
    for await (const line of fleet.servers.logs(of, { follow: true, tail: firstLines, origin: true, signal })) {
      if (batch.length === 0) setTimeout(flush, batchMs)
      batch.push(logLine(line))
    }
  } catch (error) {
    if (signal.aborted) return
    const isGone = FleetError.is(error, 'not-found')
    onProblem(isGone ? 'The log of this server is not kept any more, or not there yet.' : messageOf(error))
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
