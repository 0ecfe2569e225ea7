/** Finds builds, servers, sessions and players in the model. Pure. */
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import { connectedTo, type Model, type ServerRow, type ServerSession, sessionsIn } from './model.js'

export interface Found {
  readonly kind: 'build' | 'server' | 'session' | 'player'
  /** The name that matched. */
  readonly name: string
  /** The build, or the server that has the session or player. */
  readonly ref: Ref
  readonly note: string
}

const texts = new WeakMap<ServerRow, string>()

/** Everything by which a server is found, in lower case. Rows that have not changed since are not read again. */
function textOf(row: ServerRow): string {
  let text = texts.get(row)
  if (text === undefined) {
    const names = [row.name, ...(row.place?.addresses ?? [])]
    for (const { id, players } of sessionsIn(row)) names.push(id, ...players)
    text = names.join('\n').toLowerCase()
    texts.set(row, text)
  }
  return text
}

/** Whether the name, an address, a session or a player of the server contains the text, which is in lower case. */
export function isFoundBy(row: ServerRow, wanted: string): boolean {
  return wanted === '' || textOf(row).includes(wanted)
}

/** Reads what servers are found by, so that the first key does not wait for it. */
export function prepareSearch(model: Model): void {
  for (const row of rowsOf(model)) textOf(row)
}

/** Names that begin with the text come first. Case does not matter. */
export function search(model: Model, text: string, limit = 12): readonly Found[] {
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return []
  const first: Found[] = []
  const others: Found[] = []
  const consider = (one: Found) => {
    const at = one.name.toLowerCase().indexOf(wanted)
    if (at === 0) first.push(one)
    else if (at > 0 && others.length < limit) others.push(one)
  }
  for (const { metadata, spec } of model.builds.values()) {
    consider({ kind: 'build', name: metadata.name, ref: metadata, note: `build in ${metadata.namespace}` })
    if (spec.buildID !== metadata.name)
      consider({ kind: 'build', name: spec.buildID, ref: metadata, note: `buildID of ${metadata.name}` })
  }
  for (const row of rowsOf(model)) {
    if (first.length >= limit) break
    if (!isFoundBy(row, wanted)) continue
    consider({ kind: 'server', name: row.name, ref: row, note: `server, ${row.state}` })
    for (const address of row.place?.addresses ?? [])
      consider({ kind: 'server', name: address, ref: row, note: `address of ${row.name}, ${row.state}` })
    for (const { id } of sessionsIn(row))
      consider({ kind: 'session', name: id, ref: row, note: `session on ${row.name}` })
    for (const player of namedOn(row))
      consider({ kind: 'player', name: player, ref: row, note: `player on ${row.name}` })
  }
  return [...first, ...others].slice(0, limit)
}

/** Connected and expected players, each once. */
function namedOn({ session, others }: ServerRow): Iterable<string> {
  if (others === undefined) return session?.players ?? []
  return new Set(sessionsIn({ session, others }).flatMap(({ players }) => players))
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
  /** Undefined if the server has several: its game does not say in which one the player is. */
  readonly session: ServerSession | undefined
  readonly server: ServerRow
}

/** Players whose name contains the text, by name. Those that are connected are listed once for each server. */
export function playersFound(model: Model, text: string): readonly PlayerRow[] {
  const wanted = text.trim().toLowerCase()
  const found: PlayerRow[] = []
  const consider = (player: string, row: Omit<PlayerRow, 'player'>) => {
    if (player.toLowerCase().includes(wanted)) found.push({ player, ...row })
  }
  for (const server of rowsOf(model)) {
    if (!hasSessions(server) || !isFoundBy(server, wanted)) continue
    const session = server.others === undefined ? server.session : undefined
    for (const player of connectedTo(server)) consider(player, { isExpected: false, session, server })
    for (const one of sessionsIn(server))
      if (one.areExpected)
        for (const player of one.players) consider(player, { isExpected: true, session: one, server })
  }
  return found.toSorted((a, b) => (a.player < b.player ? -1 : a.player > b.player ? 1 : 0))
}

function hasSessions({ state }: ServerRow): boolean {
  return state === 'Active' || state === 'Terminating'
}

export interface SessionRow extends ServerSession {
  readonly server: ServerRow
}

/** Sessions whose id, players or server contain the text, newest first. */
export function sessionsOf(model: Model, text: string): readonly SessionRow[] {
  const wanted = text.trim().toLowerCase()
  const sessions: SessionRow[] = []
  for (const server of rowsOf(model)) {
    if (!hasSessions(server) || !isFoundBy(server, wanted)) continue
    for (const session of sessionsIn(server)) {
      const texts = [session.id, server.name, ...session.players]
      if (wanted !== '' && !texts.some((one) => one.toLowerCase().includes(wanted))) continue
      sessions.push({ ...session, server })
    }
  }
  return sessions.toSorted((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0))
}
