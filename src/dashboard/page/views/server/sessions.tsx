/** The sessions of one server, each with its age, its players and its end. */
import { rights } from '../../data/access.js'
import { seatsText, type ServerRow, type ServerSession, sessionsIn } from '../../data/model.js'
import { plural } from '../../data/words.js'
import { Ago, CopyButton, Section } from '../../parts/parts.js'
import { type Column, Table } from '../../parts/table.js'
import { EndSession } from '../server-actions.js'

interface OnServer {
  readonly session: ServerSession
  readonly server: ServerRow
}

const columns: readonly Column<OnServer>[] = [
  {
    name: 'Session',
    title: ({ session }) => session.id,
    cell: ({ session: { id } }) => (
      <>
        <code>{id}</code> <CopyButton text={id} name={`the session ${id}`} />
      </>
    ),
  },
  { name: 'Since', cell: ({ session: { startedAt = 0 } }) => <Ago at={startedAt} /> },
  {
    name: 'Players',
    title: ({ session }) => session.players.join(', '),
    cell: ({ session, server }) => (
      <>
        <PlayersOf session={session} server={server} />
        {session.seats ? <span class="quiet"> · {seatsText(session)}</span> : null}
      </>
    ),
  },
]

const withEnd: readonly Column<OnServer>[] = [
  ...columns,
  { name: 'End', cell: ({ session, server }) => <EndSession row={server} session={session} label="End" /> },
]

export function SessionsOfServer({ server }: { readonly server: ServerRow }) {
  const rows = sessionsIn(server).map((session) => ({ session, server }))
  if (rows.length === 0) return null
  return (
    <Section title={plural(rows.length, 'session')}>
      <Table
        label="Sessions of the server"
        kind="own-sessions"
        columns={rights.may('endSession') ? withEnd : columns}
        rows={rows}
        keyOf={({ session }) => session.id}
      />
    </Section>
  )
}

/** Of several sessions on a server, its game does not say who is in which. */
export function PlayersOf({ session: { players, areExpected }, server: { others } }: OnServer) {
  if (players.length === 0) return <span class="quiet">none</span>
  if (others !== undefined && !areExpected) return <span class="quiet">{players.length} on its server</span>
  return (
    <>
      {areExpected ? 'expects ' : ''}
      {players.length}: {players.join(', ')}
    </>
  )
}
