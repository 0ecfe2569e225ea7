/** What happens in the fleet, as it happens. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { model } from '../data/live.js'
import { minuteMs, type StreamedEvent } from '../data/model.js'
import { isReadingOlder, readOlder } from '../data/older-events.js'
import { hasOlder } from '../data/reduce.js'
import { linkTo, changeQuery } from '../data/router.js'
import { partsAt, plural } from '../data/words.js'
import { Clock, Section } from '../parts/parts.js'
import { type Column, type Sorts, Table } from '../parts/table.js'

const sorts: Sorts<StreamedEvent> = {
  Time: ({ seq }) => seq,
  Type: ({ type }) => type,
}

/** Two lines of a message below its time and type. */
const narrowRowHeight = 76

const columns: readonly Column<StreamedEvent>[] = [
  { name: 'Time', cell: (event) => ('at' in event ? <Clock at={event.at} /> : '–') },
  { name: 'Type', cell: (event) => <span class={`type ${kindOf(event)}`}>{event.type}</span> },
  {
    name: 'What happened',
    class: 'message',
    title: ({ message }) => message,
    cell: (event) => <Message event={event} />,
  },
]

export function EventsView({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const { text = '', type = '', minute: at = '' } = query
  const minute = at === '' ? undefined : Number(at)
  /** The events when it was paused. */
  const paused = useSignal<readonly StreamedEvent[] | undefined>(undefined)
  const { events, dropped } = model.value
  const types = [...new Set(events.map((event) => event.type))].toSorted()
  // What was read meanwhile is older than what it was paused at.
  const [first] = paused.value ?? []
  const listed = paused.value && first ? [...events.filter(({ seq }) => seq < first.seq), ...paused.value] : events
  const shown = listed
    .filter((event) => fits(event, type, text.trim().toLowerCase()) && isIn(minute, event))
    .toReversed()
  const isPartial = hasOlder(model.value)
  const isFiltered = text !== '' || type !== '' || minute !== undefined
  useEffect(() => {
    if (isFiltered && isPartial) void readOlder(true)
  }, [isFiltered, isPartial, isReadingOlder.value])
  const missed =
    paused.value === undefined ? 0 : events.filter(({ seq }) => seq > (paused.value?.at(-1)?.seq ?? 0)).length
  const filters = (
    <div class="filters">
      <input
        type="search"
        placeholder="Filter"
        aria-label="Filter events by text"
        value={text}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
      <select aria-label="Type" value={type} onChange={(event) => changeQuery({ type: event.currentTarget.value })}>
        <option value="">all types</option>
        {types.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
      <button
        type="button"
        aria-pressed={paused.value !== undefined}
        onClick={() => (paused.value = paused.value === undefined ? events : undefined)}
      >
        {paused.value === undefined ? 'Pause' : `Resume${missed > 0 ? ` (${missed})` : ''}`}
      </button>
    </div>
  )
  return (
    <>
      <h1 class="hidden">Events</h1>
      <Section title={`${isPartial ? 'The newest ' : ''}${plural(shown.length, 'event')}`} aside={filters}>
        {minute === undefined ? null : (
          <p>
            Of the minute that began at <Clock at={minute} />.{' '}
            <button type="button" class="small" onClick={() => changeQuery({ minute: '' })}>
              Show all
            </button>
          </p>
        )}
        {isPartial ? (
          <p class="quiet" role="status">
            {isReadingOlder.value ? (
              'Reading older events…'
            ) : (
              <>
                Older events are read as you scroll, and when you filter.{' '}
                <button type="button" class="small" onClick={() => void readOlder()}>
                  Read older
                </button>
              </>
            )}
          </p>
        ) : null}
        {dropped > 0 ? (
          <p class="quiet">
            {plural(dropped, 'earlier event')} {dropped === 1 ? 'is' : 'are'} not kept.
          </p>
        ) : null}
        {shown.length === 0 ? (
          <p class="quiet">{events.length === 0 ? 'Nothing has happened yet.' : 'No event fits the filter.'}</p>
        ) : (
          <Table
            label="Events"
            kind="events"
            columns={columns}
            rows={shown}
            keyOf={({ seq }) => seq}
            sorts={sorts}
            narrowRowHeight={narrowRowHeight}
            onEnd={() => void readOlder()}
          />
        )}
      </Section>
    </>
  )
}

function fits(event: StreamedEvent, type: string, text: string): boolean {
  if (type !== '' && event.type !== type) return false
  return text === '' || event.message.toLowerCase().includes(text) || event.type.toLowerCase().includes(text)
}

function isIn(minute: number | undefined, event: StreamedEvent): boolean {
  return minute === undefined || ('at' in event && event.at >= minute && event.at < minute + minuteMs)
}

/** The message, in which the names of the server and the build lead to them. */
function Message({ event }: { readonly event: StreamedEvent }) {
  const server = 'server' in event ? event.server : undefined
  const build = 'build' in event && event.type !== 'BuildDeleted' ? event.build : undefined
  const parts = partsAt(event.message, [server?.name ?? '', build?.name ?? ''])
  const linkOf = ({ isName, text }: (typeof parts)[number]) => {
    if (!isName) return undefined
    return text === server?.name ? linkTo.server(server) : build && linkTo.build(build)
  }
  return parts.map((part, index) => {
    const href = linkOf(part)
    if (href === undefined) return part.text
    return (
      <a key={index} href={href}>
        {part.text}
      </a>
    )
  })
}

const troubles: ReadonlySet<StreamedEvent['type']> = new Set([
  'ServerStartFailed',
  'ServerLate',
  'ReconcileFailed',
  'BackendUnavailable',
  'StoreDamaged',
  'WebhookFailed',
  'OrphanFound',
  'EventsDropped',
])

function kindOf(event: StreamedEvent): string {
  if (event.type === 'ServerEnding' && event.crash) return 'bad'
  if (event.type === 'ConditionChanged') return event.status ? 'warn' : ''
  return troubles.has(event.type) ? 'warn' : ''
}
