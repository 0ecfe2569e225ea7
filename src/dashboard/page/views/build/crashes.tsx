/** The crashes of a build in the last hour, each with its cause and the end of its server's log. */
import { useSignal } from '@preact/signals'
import { FleetError } from '../../../../contracts/errors.js'
import type { ActivityCrash, FleetActivity } from '../../../../contracts/observer.js'
import { keyOf, type Ref } from '../../../../rules/model/resources.js'
import { rights } from '../../data/access.js'
import { fleet } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { causeIn } from '../../data/words.js'
import { Ago, Section } from '../../parts/parts.js'

const shownCrashes = 10
const tailLines = 20

export function Crashes({ of }: { readonly of: FleetActivity | undefined }) {
  const crashes = of?.crashes ?? []
  const total = of?.minutes.reduce((sum, minute) => sum + minute.crashes, 0) ?? 0
  return (
    <Section
      title="Crashes in the last hour"
      aside={<span class="quiet">{of ? total.toLocaleString('en') : '…'}</span>}
    >
      {crashes.length === 0 ? <p class="quiet">{of ? 'None.' : 'Reading…'}</p> : null}
      <ul class="plain">
        {crashes.slice(0, shownCrashes).map((crash) => (
          <li key={keyOf(crash.server)}>
            <CrashItem crash={crash} />
          </li>
        ))}
      </ul>
      {total > shownCrashes ? <p class="quiet">These are the latest {shownCrashes}.</p> : null}
    </Section>
  )
}

function CrashItem({ crash }: { readonly crash: ActivityCrash }) {
  const log = useSignal<Tail | undefined>(undefined)
  const onToggle = async (event: Event) => {
    const isOpen = event.currentTarget instanceof HTMLDetailsElement && event.currentTarget.open
    if (isOpen && log.value === undefined) log.value = await readTail(crash.server)
  }
  return (
    <>
      <a href={linkTo.server(crash.server)}>{crash.server.name}</a> <span class="tag bad">{crash.reason}</span>{' '}
      <Ago at={crash.at} />
      <p>{causeIn(crash)}</p>
      {rights.may('readLogs', crash.build) ? (
        <details onToggle={(event) => void onToggle(event)}>
          <summary>End of its log</summary>
          {log.value === undefined ? <p class="quiet">Reading…</p> : <TailOf log={log.value} />}
        </details>
      ) : null}
    </>
  )
}

type Tail = { readonly lines: readonly string[] } | { readonly problem: string }

function TailOf({ log }: { readonly log: Tail }) {
  if ('problem' in log) return <p class="quiet">{log.problem}</p>
  if (log.lines.length === 0) return <p class="quiet">It has printed nothing.</p>
  return (
    <pre class="code" tabIndex={0} aria-label="End of the log">
      {log.lines.join('\n')}
    </pre>
  )
}

async function readTail(server: Ref): Promise<Tail> {
  const lines: string[] = []
  try {
    for await (const line of fleet.servers.logs(server, { tail: tailLines })) lines.push(line)
    return { lines }
  } catch (error) {
    if (FleetError.is(error, 'not-found'))
      return { problem: 'The log is gone: this backend keeps it only as long as the server exists.' }
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
