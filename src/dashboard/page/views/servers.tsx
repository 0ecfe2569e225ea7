/** All servers of the fleet: as a map, one square each, and as a table. */
import { useEffect } from 'preact/hooks'
import { keyOf, type ServerState, serverStates } from '../../../rules/model/resources.js'
import { model } from '../data/live.js'
import type { ServerRow } from '../data/model.js'
import { readPlaces } from '../data/places.js'
import { changeQuery, linkTo } from '../data/router.js'
import { isFoundBy, rowsOf } from '../data/search.js'
import { plural, stateWords } from '../data/words.js'
import { Section } from '../parts/parts.js'
import { serverColumns, serverSorts } from '../parts/server-table.js'
import { type Column, type Sorts, Table } from '../parts/table.js'
import { type Grouping, ServerMap } from './servers/server-map.js'

const named = (name: string) => serverColumns.filter((column) => column.name === name)
const dash = <span class="quiet">–</span>

const columns: readonly Column<ServerRow>[] = [
  ...['Server', 'State', 'Since'].flatMap(named),
  { name: 'Build', title: ({ build }) => build, cell: ({ build }) => <a href={linkToBuild(build)}>{nameIn(build)}</a> },
  { name: 'Node', title: ({ place }) => place?.node, cell: ({ place }) => place?.node || dash },
  {
    name: 'Address',
    title: ({ place }) => place?.addresses.join(', '),
    cell: ({ place }) => place?.addresses[0] ?? dash,
  },
  ...['Session', 'Players'].flatMap(named),
]

const sorts: Sorts<ServerRow> = {
  ...serverSorts,
  Build: ({ build }) => build,
  Node: ({ place }) => place?.node ?? '',
  Address: ({ place }) => place?.addresses[0] ?? '',
}

export function ServersView({ query: { text = '', state = '', by = '' } }: ServersViewProps) {
  const grouping: Grouping = by === 'node' ? 'node' : 'build'
  const all = [...rowsOf(model.value)]
  const wanted = text.trim().toLowerCase()
  const shown = all.filter((row) => (state === '' || row.state === state) && isFoundBy(row, wanted))
  useEffect(readPlaces)
  const filters = (
    <div class="filters">
      <input
        type="search"
        placeholder="Name, address, session, player"
        aria-label="Filter servers by name, address, session or player"
        value={text}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
      <select aria-label="State" value={state} onChange={(event) => changeQuery({ state: event.currentTarget.value })}>
        <option value="">all states</option>
        {serverStates.map((one: ServerState) => (
          <option key={one} value={one}>
            {stateWords[one]}
          </option>
        ))}
      </select>
      <select
        aria-label="Group the map by"
        value={grouping}
        onChange={(event) => changeQuery({ by: event.currentTarget.value })}
      >
        <option value="build">by build</option>
        <option value="node">by node</option>
      </select>
    </div>
  )
  const title =
    shown.length === all.length
      ? plural(all.length, 'server')
      : `${shown.length.toLocaleString('en')} of ${plural(all.length, 'server')}`
  return (
    <>
      <h1 class="hidden">Servers</h1>
      <Section title={title} aside={filters}>
        {shown.length === 0 ? (
          <p class="quiet">
            {all.length === 0 ? 'No servers. They appear here as the fleet starts them.' : 'No server fits the filter.'}
          </p>
        ) : (
          <>
            <ServerMap rows={shown} by={grouping} />
            <Table label="Servers" kind="all-servers" columns={columns} rows={shown} keyOf={keyOf} sorts={sorts} />
          </>
        )}
      </Section>
    </>
  )
}

interface ServersViewProps {
  readonly query: Readonly<Record<string, string>>
}

function linkToBuild(key: string): string {
  const [namespace = '', name = ''] = key.split('/')
  return linkTo.build({ namespace, name })
}

function nameIn(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}
