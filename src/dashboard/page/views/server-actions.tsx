/** What an operator does to a server: drain it, end its session, terminate it. */
import { rights } from '../data/access.js'
import { begun } from '../changes/begun.js'
import { fleet } from '../data/live.js'
import type { ServerRow, ServerSession } from '../data/model.js'
import { plural } from '../data/words.js'
import { Action } from '../parts/action.js'

export function ServerActions({ row }: { readonly row: ServerRow }) {
  if (row.state === 'Terminating') return null
  const session = row.state === 'Active' ? row.session : undefined
  return (
    <div class="actions">
      {/* The call names the session, and no namespace. */}
      {session && !row.others && rights.may('endSession') ? <EndSession row={row} session={session} /> : null}
      {rights.may('drainServer', row) ? (
        <Action
          name="Drain"
          verb="Drain"
          run={() => begun(`The drain of ${row.name} has failed`, fleet.servers.drain(row))}
        >
          <p>{session ? 'Replaces the server when its match is over.' : 'Ends the server now and replaces it.'}</p>
        </Action>
      ) : null}
      {rights.may('deleteServer', row) ? (
        <Action
          name="Terminate"
          verb={`Terminate ${row.name}`}
          isDangerous
          run={() => begun(`${row.name} is not terminated`, fleet.servers.delete(row))}
        >
          <p>
            Ends the server and replaces it.{' '}
            {session ? `Its match with ${playersOf(session)} will be ended.` : 'It has no match.'}
          </p>
        </Action>
      ) : null}
    </div>
  )
}

/** `label`: on the button, if there is a column of them. */
export function EndSession({
  row: { name, others, state },
  session,
  label,
}: {
  readonly row: ServerRow
  readonly session: ServerSession
  readonly label?: string
}) {
  if (state !== 'Active') return null
  return (
    <Action
      name={label === undefined ? 'End session' : `End the session on ${name}`}
      label={label}
      verb="End session"
      isDangerous
      run={() => fleet.sessions.end(session.id)}
    >
      <p>
        {others
          ? 'Asks the game to end this session. The others on its server go on.'
          : `Ends the match with ${playersOf(session)}: the game is told, and the server is replaced after its grace period.`}
      </p>
    </Action>
  )
}

function playersOf({ players, areExpected = false }: ServerSession): string {
  return plural(players.length, areExpected ? 'expected player' : 'player')
}
