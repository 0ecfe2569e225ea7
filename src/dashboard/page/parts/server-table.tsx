/** Servers in rows, however many there are. */
import { keyOf, serverStates } from '../../../rules/model/resources.js'
import { connectedTo, type ServerRow, sessionsIn } from '../data/model.js'
import { linkTo } from '../data/router.js'
import { Ago, HealthTag, Instant, StateTag } from './parts.js'
import { type Column, type Sorts, Table } from './table.js'

export const serverColumns: readonly Column<ServerRow>[] = [
  { name: 'Server', cell: (row) => <a href={linkTo.server(row)}>{row.name}</a> },
  { name: 'State', title: ({ message }) => message, cell: ({ state }) => <StateTag state={state} /> },
  { name: 'Since', cell: ({ since }) => <Ago at={since} /> },
  { name: 'Health', cell: ({ health }) => <HealthTag health={health} /> },
  {
    name: 'Session',
    class: 'session',
    title: (row) =>
      sessionsIn(row)
        .map(({ id }) => id)
        .join('\n'),
    cell: ({ session, others, message, maintenance }) => (
      <>
        {maintenance === undefined ? null : (
          <>
            <span class="warn type">
              maintenance <Instant at={maintenance} />
            </span>{' '}
          </>
        )}
        {others ? <b>{others.length + 1} sessions: </b> : null}
        {session ? (
          sessionsIn({ session, others })
            .map(({ id }) => id)
            .join(', ')
        ) : (
          <span class="quiet">{message ?? '–'}</span>
        )}
      </>
    ),
  },
  { name: 'Players', class: 'number', cell: (row) => (row.session ? connectedTo(row).length : '') },
]

export const serverSorts: Sorts<ServerRow> = {
  Server: ({ name }) => name,
  State: ({ state }) => serverStates.indexOf(state),
  // The youngest first, as the ages read.
  Since: ({ since }) => -since,
  Health: ({ health }) => health,
  Session: ({ session }) => session?.id ?? '',
  Players: (row) => connectedTo(row).length,
}

export function ServerTable({ rows }: { readonly rows: readonly ServerRow[] }) {
  return <Table label="Servers" kind="servers" columns={serverColumns} rows={rows} keyOf={keyOf} sorts={serverSorts} />
}
