/** Simulated matchmakers, which reserve seats, and the players for whom they do: some come and leave again, some never come. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { GameSession } from '../../../src/contracts/sessions.js'
import { keyOf, type Server } from '../../../src/rules/model/resources.js'
import { type SimulationContext, severalBuildName } from '../context.js'
import type { Host } from '../world/host.js'

/** Reserves seats of a random session, or of any of its build, often with several calls at once. */
export async function reserveSeats(context: SimulationContext): Promise<void> {
  const { world, store } = context
  const host = context.hosts.pickResponsive()
  const records = [...store.servers.values()].map(({ record }) => record)
  const server = world.oneOf(records.filter(({ build, sessions }) => sessions.length > 0 && build !== severalBuildName))
  if (!host?.fleet || !server) return
  host.hasNews = true
  const calls = Array.from({ length: world.oneOf([1, 1, 2, 4]) ?? 1 }, () => reserve(context, host, server))
  await Promise.all(calls)
}

async function reserve(context: SimulationContext, host: Host, server: Server): Promise<void> {
  const { world, store, invariants } = context
  const { seats } = invariants
  const { sessions } = host.fleet ?? {}
  const { id: sessionID } = server.sessions[0] ?? {}
  if (!sessions || sessionID === undefined) return
  const players = Array.from({ length: world.between(1, 3) }, () => seats.newGuest())
  const holdMs = world.between(1_000, 60_000)
  const { buildID } = store.builds.get(keyOf({ namespace: 'default', name: server.build }))?.record.spec ?? {}
  const joins = buildID !== undefined && world.chance(0.3)
  const call = (): Promise<GameSession> =>
    joins ? sessions.join({ buildID, players, holdMs }) : sessions.reserveSeats(sessionID, players, { holdMs })
  const attempt = seats.begin(joins ? undefined : server.uid, players, holdMs)
  try {
    const session = await call()
    world.note(`matchmaker: seats of ${session.sessionID} are held for ${players.join(', ')}`)
    if (!seats.granted(host, session, attempt)) return
    for (const player of players) arrive(context, session, player, holdMs)
    if (world.chance(0.1)) await release(context, host, session, players.slice(0, 1))
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
    if (error.code === 'no-room') seats.refused(host, joins ? undefined : server, attempt, error)
  } finally {
    seats.end(attempt)
  }
}

async function release(
  { invariants }: SimulationContext,
  host: Host,
  { sessionID }: GameSession,
  players: readonly string[],
): Promise<void> {
  // From now on, nobody may rely on these.
  invariants.seats.givenUp(players)
  await host.fleet?.sessions.releaseSeats(sessionID, players)
}

/** Some players come in time and leave later. */
function arrive(
  { world, backend, invariants }: SimulationContext,
  session: GameSession,
  player: string,
  ms: number,
): void {
  if (!world.chance(0.6)) return
  world.after(world.between(1, ms), () => {
    const game = backend.instances.get(keyOf(session.server))?.game
    // Players neither come nor leave while the fleet has to reach quiescence.
    if (
      !world.faultsEnabled ||
      !game?.running ||
      game.session !== session.sessionID ||
      !invariants.seats.isPromised(player)
    )
      return
    game.admit(player)
    world.after(world.between(1_000, 60_000), () => world.faultsEnabled && game.dismiss(player))
  })
}
