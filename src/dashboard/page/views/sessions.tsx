/** Who plays where: finds sessions by their id, their players or their server. */
import { rights } from '../data/access.js'
import { model } from '../data/live.js'
import { seatsText } from '../data/model.js'
import { linkTo, changeQuery } from '../data/router.js'
import { type SessionRow, sessionsOf } from '../data/search.js'
import { plural } from '../data/words.js'
import { Ago, Section } from '../parts/parts.js'
import { PlayersOf } from './server/sessions.js'
import { EndSession } from './server-actions.js'
import { type Column, type Sorts, Table } from '../parts/table.js'

const columns: readonly Column<SessionRow>[] = [
  { name: 'Session', title: ({ id }) => id, cell: ({ id, server }) => <a href={linkTo.server(server)}>{id}</a> },
  {
    name: 'Players',
    title: ({ players }) => players.join(', '),
    cell: (session) => <PlayersOf session={session} server={session.server} />,
  },
  {
    name: 'Seats',
    cell: (session) => seatsText(session) ?? <span class="quiet">–</span>,
  },
  { name: 'Server', cell: ({ server }) => server.name },
  { name: 'Since', cell: ({ startedAt = 0 }) => <Ago at={startedAt} /> },
]

const sorts: Sorts<SessionRow> = {
  Session: ({ id }) => id,
  Players: ({ players }) => players.length,
  Seats: ({ seats }) => seats?.taken ?? -1,
  Server: ({ server }) => server.name,
  Since: ({ server }) => -server.since,
}

const withEnd: readonly Column<SessionRow>[] = [
  ...columns,
  { name: 'End', cell: ({ server, ...session }) => <EndSession row={server} session={session} label="End" /> },
]

export function SessionsView({ query: { text = '' } }: { readonly query: Readonly<Record<string, string>> }) {
  const sessions = sessionsOf(model.value, text)
  const filter = (
    <div class="filters">
      <input
        type="search"
        placeholder="Session, player, server"
        aria-label="Find a session by its id, player or server"
        value={text}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
    </div>
  )
  return (
    <>
      <h1 class="hidden">Sessions</h1>
      <Section title={plural(sessions.length, 'session')} aside={filter}>
        {sessions.length === 0 ? (
          <p class="quiet">
            {text === ''
              ? 'No matches are running. An allocation starts one.'
              : 'No session, player or server has this text.'}
          </p>
        ) : (
          <Table
            label="Sessions"
            kind="sessions"
            columns={rights.may('endSession') ? withEnd : columns}
            rows={sessions}
            keyOf={({ id }) => id}
            sorts={sorts}
          />
        )}
      </Section>
    </>
  )
}
