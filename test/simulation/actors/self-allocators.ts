/** Simulated games that take their own servers, some of them for a session that another game or a caller has at the same time. */
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { SimulationContext } from '../context.js'
import type { ModelInstance } from '../models/backend-model.js'

/** One or two games that are standing by take their servers, whether the fleet has heard that they are or not. */
export async function takeOwnServers(context: SimulationContext): Promise<void> {
  const { world, backend, store } = context
  const canTake = ({ game }: ModelInstance) => game?.running && game.state === 'StandingBy' && !game.deps.isProbed
  const standingBy = [...backend.instances.values()].filter(canTake)
  const taken = [...store.servers.values()].flatMap(({ record }) => record.sessions[0]?.id ?? [])
  const sessionID = (world.chance(0.2) && world.oneOf(taken)) || world.guid()
  const games = Array.from({ length: world.chance(0.3) ? 2 : 1 }, () => world.oneOf(standingBy) ?? [])
  await Promise.all(games.flat().map((game) => take(context, game, sessionID)))
}

async function take(
  { world, hosts, store, invariants, totals }: SimulationContext,
  game: ModelInstance,
  sessionID: string,
): Promise<void> {
  const host = hosts.pickResponsive()
  if (!host?.fleet) return
  const { ref, sdk } = game.spec
  host.hasNews = true
  world.note(`game: ${ref.name} takes itself for ${sessionID}`)
  const isNew = ![...store.servers.values()].some(({ record }) => record.sessions[0]?.id === sessionID)
  if (isNew) invariants.selections.named(sessionID)
  // The call says that a game that was not ready is, like the heartbeat that may come after it.
  const state = store.servers.get(keyOf(ref))?.record.state
  const saysReady = state === 'Pending' || state === 'Initializing'
  if (saysReady && host.leads) invariants.unheardServers.heartbeatReceived(host, game.spec.uid)
  try {
    await host.fleet.allocateOwnServer(sdk.sessionHostId, { sessionID })
    totals.allocations++
    if (game.address !== undefined) invariants.returnedToCaller(sessionID, game.address)
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
  }
}
