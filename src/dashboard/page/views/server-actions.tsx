/** What an operator does to a server: drain it, end its session, terminate it. */
import { rights } from '../data/access.js'
import { begun } from '../changes/begun.js'
import { drainServerConsequence, terminateConsequence } from '../data/consequences.js'
import { fleet } from '../data/live.js'
import { connectedTo, type ServerRow, type ServerSession, sessionsIn } from '../data/model.js'
import { plural } from '../data/words.js'
import { Action } from '../parts/action.js'

export function ServerActions({ row }: { readonly row: ServerRow }) {
  if (row.state === 'Terminating') return null
  const sessions = row.state === 'Active' ? sessionsIn(row) : []
  const [session] = sessions
  return (
    <div class="actions">
      {/* The call names the session, and no namespace. */}
      {session && sessions.length === 1 && rights.may('endSession') ? <EndSession row={row} session={session} /> : null}
      {rights.may('drainServer', row) ? (
        <Action
          name="Drain"
          title={`Drain ${row.name}`}
          verb="Drain"
          run={() => begun(`The drain of ${row.name} has failed`, fleet.servers.drain(row))}
        >
          <p>{drainServerConsequence(sessions.length)}</p>
        </Action>
      ) : null}
      {rights.may('deleteServer', row) ? (
        <Action
          name="Terminate"
          title={`Terminate ${row.name}`}
          verb="Terminate"
          isDangerous
          run={() => begun(`${row.name} is not terminated`, fleet.servers.delete(row))}
        >
          <p>{terminateConsequence(sessions.length, whoIsOn(row))}</p>
        </Action>
      ) : null}
    </div>
  )
}

interface EndSessionProps {
  readonly row: ServerRow
  readonly session: ServerSession
  /** On the button, if there is a column of them. */
  readonly label?: string
}

export function EndSession({ row, session, label }: EndSessionProps) {
  const { name, others, state } = row
  if (state !== 'Active') return null
  return (
    <Action
      name={label === undefined ? 'End session' : `End the session ${session.id} on ${name}`}
      title={`End session ${session.id} on ${name}`}
      label={label}
      verb="End session"
      isDangerous
      run={() => fleet.sessions.end(session.id)}
    >
      <p>
        {others
          ? `Asks the game to end this session. The other ${plural(others.length, 'session')} on its server ${others.length === 1 ? 'goes' : 'go'} on.`
          : `Ends the match with ${whoIsOn(row)}: the game is told, and the server is replaced after its grace period.`}
      </p>
    </Action>
  )
}

/** The connected players of a server, and before its game has reported any, those that its sessions expect. */
function whoIsOn(row: ServerRow): string {
  const connected = connectedTo(row).length
  const expected = sessionsIn(row).reduce(
    (sum, { areExpected, players }) => sum + (areExpected ? players.length : 0),
    0,
  )
  return connected === 0 && expected > 0 ? plural(expected, 'expected player') : plural(connected, 'player')
}
