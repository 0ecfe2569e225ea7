/** Who is where: finds players, those that are connected and those that a session expects. */
import { model } from '../../data/live.js'
import { linkTo, changeQuery } from '../../data/router.js'
import { type PlayerRow, playersFound } from '../../data/search.js'
import { plural } from '../../data/words.js'
import { Ago, Section } from '../../parts/parts.js'
import { type Column, type Sorts, Table } from '../../parts/table.js'

const columns: readonly Column<PlayerRow>[] = [
  { name: 'Player', title: ({ player }) => player, cell: ({ player }) => <bdi>{player}</bdi> },
  {
    name: 'Is',
    cell: ({ isExpected }) => (isExpected ? <span class="quiet">expected</span> : 'connected'),
  },
  { name: 'Server', cell: ({ server }) => <a href={linkTo.server(server)}>{server.name}</a> },
  {
    name: 'Session',
    title: ({ session }) => session?.id,
    cell: ({ session, server: { others = [] } }) =>
      session?.id ?? <span class="quiet">one of {others.length + 1}</span>,
  },
  {
    name: 'Since',
    cell: ({ session }) => (session ? <Ago at={session.startedAt ?? 0} /> : <span class="quiet">–</span>),
  },
]

const sorts: Sorts<PlayerRow> = {
  Player: ({ player }) => player,
  Is: ({ isExpected }) => (isExpected ? 1 : 0),
  Server: ({ server }) => server.name,
  Session: ({ session }) => session?.id ?? '',
  Since: ({ session }) => -(session?.startedAt ?? 0),
}

export function PlayersView({ query: { text = '' } }: { readonly query: Readonly<Record<string, string>> }) {
  const players = playersFound(model.value, text)
  const expected = players.filter(({ isExpected }) => isExpected).length
  const title = `${plural(players.length - expected, 'player')} connected${expected > 0 ? `, ${expected.toLocaleString('en')} expected` : ''}`
  const filter = (
    <div class="filters">
      <input
        type="search"
        placeholder="Player"
        aria-label="Find a player"
        value={text}
        onInput={(event) => changeQuery({ text: event.currentTarget.value })}
      />
    </div>
  )
  return (
    <>
      <h1 class="hidden">Players</h1>
      <Section title={title} aside={filter}>
        {players.length === 0 ? (
          <p class="quiet">
            {text === ''
              ? 'No players. They appear here when a session expects them, or a game reports them.'
              : 'No player has this text.'}
          </p>
        ) : (
          <Table
            label="Players"
            kind="players"
            columns={columns}
            rows={players}
            keyOf={({ player, session, server }) => `${server.namespace}/${server.name} ${session?.id} ${player}`}
            sorts={sorts}
          />
        )}
      </Section>
    </>
  )
}
