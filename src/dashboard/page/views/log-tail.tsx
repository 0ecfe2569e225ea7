/** The end of a server's log, read once. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FleetError } from '../../../contracts/errors.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { fleet } from '../data/live.js'

const tailLines = 20

type Tail = { readonly lines: readonly string[] } | { readonly problem: string }

interface LogTailProps {
  readonly of: Ref
  /** What is known of the end of the log without reading it, as lines joined by ` | `: shown if the log is gone. */
  readonly kept?: string | undefined
}

export function LogTail({ of, kept }: LogTailProps) {
  const log = useSignal<Tail | undefined>(undefined)
  useEffect(() => {
    const stop = new AbortController()
    log.value = undefined
    void readTail(of, stop.signal).then((tail) => {
      if (!stop.signal.aborted) log.value = tail
    })
    return () => stop.abort()
  }, [keyOf(of)])
  if (log.value === undefined) return <p class="quiet">Reading…</p>
  if ('problem' in log.value)
    return (
      <>
        <p class="quiet">{log.value.problem}</p>
        {kept === undefined ? null : <Lines of={kept.split(' | ')} label="Its last output" />}
      </>
    )
  if (log.value.lines.length === 0) return <p class="quiet">It has printed nothing.</p>
  return <Lines of={log.value.lines} label="End of the log" />
}

function Lines({ of, label }: { readonly of: readonly string[]; readonly label: string }) {
  return (
    <pre class="code" tabIndex={0} aria-label={label}>
      {of.join('\n')}
    </pre>
  )
}

async function readTail(server: Ref, signal: AbortSignal): Promise<Tail> {
  const lines: string[] = []
  try {
    for await (const line of fleet.servers.logs(server, { tail: tailLines, signal })) lines.push(line)
    return { lines }
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return { problem: 'The log of this server is not kept any more.' }
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
