/** Finds builds, servers, sessions and players in the model. Pure. */
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { type Model, type ServerRow, type ServerSession, sessionsIn } from './model.js'

export interface Found {
  readonly kind: 'build' | 'server' | 'session' | 'player'
  /** The name that matched. */
  readonly name: string
  /** The build, or the server that has the session or player. */
  readonly ref: Ref
  readonly note: string
}

/** Names that begin with the text come first. Case does not matter. */
export function search(model: Model, text: string, limit = 12): readonly Found[] {
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return []
  const found: { readonly rank: number; readonly one: Found }[] = []
  const consider = (one: Found) => {
    const at = one.name.toLowerCase().indexOf(wanted)
    if (at >= 0) found.push({ rank: at === 0 ? 0 : 1, one })
  }
  for (const { metadata, spec } of model.builds.values()) {
    consider({ kind: 'build', name: metadata.name, ref: metadata, note: `build in ${metadata.namespace}` })
    if (spec.buildID !== metadata.name)
      consider({ kind: 'build', name: spec.buildID, ref: metadata, note: `buildID of ${metadata.name}` })
  }
  for (const row of rowsOf(model)) {
    consider({ kind: 'server', name: row.name, ref: row, note: `server, ${row.state}` })
    for (const { id, players } of sessionsIn(row)) {
      consider({ kind: 'session', name: id, ref: row, note: `session on ${row.name}` })
      for (const player of players) consider({ kind: 'player', name: player, ref: row, note: `player on ${row.name}` })
    }
  }
  return found
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, limit)
    .map(({ one }) => one)
}

export function* rowsOf(model: Model): Generator<ServerRow> {
  for (const servers of model.servers.values()) yield* servers.values()
}

/** A server by its name, whatever its build. */
export function findServer(model: Model, ref: Ref): ServerRow | undefined {
  const key = keyOf(ref)
  for (const servers of model.servers.values()) {
    const row = servers.get(key)
    if (row) return row
  }
  return undefined
}

export interface PlayerRow {
  readonly player: string
  /** The session expects the player, and its game has not reported any yet. */
  readonly isExpected: boolean
  readonly sessionID: string
  readonly server: ServerRow
}

/** Players whose name contains the text, by name. */
export function playersFound(model: Model, text: string): readonly PlayerRow[] {
  const wanted = text.trim().toLowerCase()
  const found = sessionsOf(model, '').flatMap(({ id, players, areExpected = false, server }) =>
    players
      .filter((player) => player.toLowerCase().includes(wanted))
      .map((player) => ({ player, isExpected: areExpected, sessionID: id, server })),
  )
  return found.toSorted((a, b) => (a.player < b.player ? -1 : a.player > b.player ? 1 : 0))
}

export interface SessionRow {
  readonly id: string
  readonly players: readonly string[]
  readonly areExpected?: boolean
  readonly seats?: ServerSession['seats']
  readonly server: ServerRow
}

/** Sessions whose id, players or server contain the text, newest first. */
export function sessionsOf(model: Model, text: string): readonly SessionRow[] {
  const wanted = text.trim().toLowerCase()
  const sessions: SessionRow[] = []
  for (const server of rowsOf(model)) {
    if (server.state !== 'Active' && server.state !== 'Terminating') continue
    for (const session of sessionsIn(server)) {
      const texts = [session.id, server.name, ...session.players]
      if (wanted !== '' && !texts.some((one) => one.toLowerCase().includes(wanted))) continue
      sessions.push({ ...session, server })
    }
  }
  return sessions.toSorted((a, b) => b.server.since - a.server.since)
}
