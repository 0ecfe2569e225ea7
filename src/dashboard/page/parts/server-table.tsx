/** Servers in rows, however many there are. */
import { keyOf } from '../../../rules/model/resources.js'
import { connectedIn, type ServerRow } from '../data/model.js'
import { linkTo } from '../data/router.js'
import { Ago, HealthTag, Instant, StateTag } from './parts.js'
import { type Column, Table } from './table.js'

const columns: readonly Column<ServerRow>[] = [
  { name: 'Server', cell: (row) => <a href={linkTo.server(row)}>{row.name}</a> },
  { name: 'State', title: ({ message }) => message, cell: ({ state }) => <StateTag state={state} /> },
  { name: 'Since', cell: ({ since }) => <Ago at={since} /> },
  { name: 'Health', cell: ({ health }) => <HealthTag health={health} /> },
  {
    name: 'Session',
    class: 'session',
    title: ({ session }) => session?.id,
    cell: ({ session, message, maintenance }) => (
      <>
        {maintenance === undefined ? null : (
          <>
            <span class="warn type">
              maintenance <Instant at={maintenance} />
            </span>{' '}
          </>
        )}
        {session?.id ?? <span class="quiet">{message ?? '–'}</span>}
      </>
    ),
  },
  { name: 'Players', class: 'number', cell: ({ session }) => (session ? connectedIn(session) : '') },
]

export function ServerTable({ rows }: { readonly rows: readonly ServerRow[] }) {
  return <Table label="Servers" kind="servers" columns={columns} rows={rows} keyOf={keyOf} />
}
