/**
 * Invariant: after the last fault, the fleet reaches the state that the builds specify; the fleet, the store and the games
 * agree with each other; and then the fleet makes no further calls.
 */
import { settledBudgetProblem } from './budget.js'
import { askedFor } from './scaling.js'
import { standingByOf } from '../../../src/rules/model/build-status.js'
import { isDeepStrictEqual } from 'node:util'
import { type Condition, keyOf } from '../../../src/rules/model/resources.js'
import { buildHealth } from '../../../src/rules/model/build-status.js'
import type { GameServer, GameServerBuild } from '../../../src/rules/model/wire.js'
import { rolloutBatch } from '../../../src/rules/planning/rollout.js'
import type { SimulationContext } from '../context.js'
import { type BackendModel, createRefusals, type ModelInstance } from '../models/backend-model.js'
import { Violation } from '../world/world.js'
import {
  buildNameOf,
  isDraining,
  isInvalid,
  isReserved,
  reservedIn,
  takeSnapshot,
  type FleetSnapshot,
} from './snapshot.js'
import { runsSpec } from './spec-checks.js'

/** Throws a Violation if the invariant fails. `passTime` advances the run by some minutes, during which no calls may be made. */
export async function checkQuiescence(context: SimulationContext, passTime: () => Promise<void>): Promise<void> {
  const { leader } = context.lease
  const snapshot = leader?.fleet && (await takeSnapshot(leader, leader.fleet))
  if (!snapshot) throw new Violation('there is no leader although there are no faults')
  for (const build of snapshot.builds) checkBuild(build, snapshot, context)
  checkBudget(snapshot, context)
  for (const server of snapshot.servers.values()) checkServer(server, context)
  await checkPlayers(snapshot, context)
  checkNothingLeft(snapshot, context)
  context.invariants.seats.checkSettled(snapshot.host)
  context.invariants.probedServers.checkSettled()
  context.invariants.sessionEnds.check()
  // The fleet is not idle yet if a server is waiting for a port, if a session has yet to reach its limit, or if a clock that was set back
  // has prolonged the hold of a seat or a reservation.
  const { backend, store, world } = context
  const holdsSeats = ({ metadata }: GameServer) =>
    store.servers.get(keyOf(metadata))?.record.sessions[0]?.holds !== undefined
  const isBusy = (server: GameServer) =>
    waitsForPort(server, backend) ||
    hasLimitAhead(server, snapshot, world.skewMs) ||
    holdsSeats(server) ||
    isReserved(server)
  if ([...snapshot.servers.values()].some(isBusy)) return
  // Conditions that name how many servers other builds have are brought up to date after ten minutes.
  const toldLater = ({ status }: GameServerBuild) =>
    status.conditions?.some(({ type }) => type === 'BudgetReached') ?? false
  if (snapshot.builds.some(toldLater)) for (let passed = 0; passed < 4; passed++) await passTime()
  const before = callCounts(context)
  await passTime()
  const after = callCounts(context)
  if (before !== after) throw new Violation(`a quiescent fleet made calls: ${before} before, ${after} after`)
}

function callCounts({ store, backend }: SimulationContext): string {
  // Counts reads only for a watched store: without a watch, the fleet may poll the store.
  const calls = store.watched ? `${store.calls} calls, ` : ''
  return `${calls}${store.changes} writes, ${backend.calls} creates and deletes`
}

function checkBuild(
  build: GameServerBuild,
  snapshot: FleetSnapshot,
  { backend, store, invariants, webhooks, world }: SimulationContext,
): void {
  const { spec, status, metadata } = build
  const reserved = reservedIn(snapshot, metadata.name)
  const used = status.currentActive + reserved.length
  const wanted = isDraining(build) ? 0 : Math.max(0, Math.min(standingByOf(build), spec.max - used))
  const idle = status.currentPending + status.currentInitializing + status.currentStandingBy - reserved.length
  const standingBy = status.currentStandingBy - reserved.filter((one) => one.status.state === 'StandingBy').length
  // An Unhealthy or invalid build creates no servers but keeps the existing ones.
  const isStopped = status.health === 'Unhealthy' || isInvalid(build)
  // If it was stopped during a rolling update, it may also have replacement servers.
  const atMost = wanted + (isStopped && status.rollout ? rolloutBatch(wanted) : 0)
  // And the budget may leave a build fewer, which is checked for all builds together.
  const mayLack = isStopped || world.budget !== undefined
  const enough = mayLack ? idle <= atMost : idle === wanted
  // A build that lacks free ports cannot reach its target.
  const lacksPort = lacksPorts(status.conditions) || !backend.hasUsablePort
  if (!lacksPort && (!enough || (!isStopped && standingBy !== (mayLack ? idle : wanted)))) {
    const { max } = spec
    throw new Violation(
      `build ${metadata.name} did not settle: ${JSON.stringify({ spec: { standingBy: spec.standingBy, max }, status })}`,
    )
  }
  const asked = Math.min(spec.max, askedFor(build, snapshot, webhooks))
  if (status.scaling && !isInvalid(build) && status.scaling.standingBy !== asked) {
    throw new Violation(
      `build ${metadata.name} keeps ${status.scaling.standingBy} ready, but ${asked} is asked for: ${JSON.stringify({ spec: spec.scaling, status })}`,
    )
  }
  const record = store.builds.get(keyOf(metadata))?.record
  if (!record || !isDeepStrictEqual(record.spec, spec)) {
    const [stored, known] = [record?.spec, spec].map((one) => JSON.stringify(one))
    throw new Violation(`build ${metadata.name} is ${stored} in the store, but ${known} in the fleet`)
  }
  const [least, most] = invariants.records.crashRange(record.uid)
  if (status.crashesCount !== record.crashes || record.crashes < least || record.crashes > most) {
    throw new Violation(
      `build ${metadata.name} counts ${status.crashesCount} crashes and ${record.crashes} in the store, but had ${least}`,
    )
  }
}

function checkBudget(snapshot: FleetSnapshot, { backend, world }: SimulationContext): void {
  if (world.budget === undefined) return
  const mayGrow = ({ status }: GameServerBuild) =>
    status.health === 'Healthy' && backend.hasUsablePort && !lacksPorts(status.conditions)
  const problem = settledBudgetProblem(world.budget, snapshot, mayGrow)
  if (problem !== undefined) throw new Violation(problem)
}

function checkServer(server: GameServer, { store, backend }: SimulationContext): void {
  const { state, sessionID } = server.status
  const { name } = server.metadata
  const record = store.servers.get(keyOf(server.metadata))?.record
  if (record?.state !== state || (state === 'Active' && record.sessions[0]?.id !== sessionID)) {
    throw new Violation(`${name} is ${record?.state} in the store, but ${state} in the fleet`)
  }
  if (waitsForPort(server, backend)) return
  const build = store.builds.get(keyOf({ namespace: record.namespace, name: record.build }))?.record
  const isInvalidBuild = build?.conditions.some(({ type }) => type === 'Invalid')
  // It stays Pending until the spec of its build is valid.
  if (state === 'Pending' && isInvalidBuild) return
  const instance = backend.instances.get(keyOf(server.metadata))
  // A late server stays in a build that gets no others in its place.
  if (state === 'Pending' && instance?.hangs && build && buildHealth(build) === 'Unhealthy') return
  // One that somebody reserves stays until the reservation ends, which a leader whose clock was ahead may have put off for long.
  if (state === 'Pending' && instance?.hangs && isReserved(server)) return
  if (state !== 'StandingBy' && state !== 'Active') {
    throw new Violation(`${name} is still ${state}: ${server.status.message ?? 'no message'}`)
  }
  // A build that cannot create servers keeps its existing ones, even if they are outdated.
  const lacksPort = !backend.hasUsablePort || lacksPorts(build?.conditions)
  const mayBeReplaced = build !== undefined && buildHealth(build) === 'Healthy' && !isInvalidBuild && !lacksPort
  if (
    state === 'StandingBy' &&
    instance &&
    mayBeReplaced &&
    !isReserved(server) &&
    !runsSpec(instance.spec, build.spec)
  ) {
    throw new Violation(`${name} is standing by but does not run the spec of its build`)
  }
  const game = instance?.game
  if (!game?.running) throw new Violation(`${name} is ${state}, but its process is not running`)
  if (state === 'Active' && game.session !== sessionID) {
    throw new Violation(`${name} was allocated for ${sessionID}, but its game never received it`)
  }
  const { rooms } = game.deps
  if (rooms && String(record.sessions.map(({ id }) => id)) !== String(rooms.running.map((one) => one.sessionId)))
    throw new Violation(`${name} does not have the sessions in the store that its game plays`)
}

async function checkPlayers({ host, servers }: FleetSnapshot, { store, backend }: SimulationContext): Promise<void> {
  for (const { metadata } of servers.values()) {
    const game = backend.instances.get(keyOf(metadata))?.game
    const reported = await host.fleet?.details.get(metadata)
    const stored = store.details.get(keyOf(metadata))?.record.players ?? []
    // Games without an SDK name their players in no order that means something.
    const shown = (players: readonly string[] = []) =>
      (game?.deps.isProbed ? players.toSorted((a, b) => (a < b ? -1 : 1)) : players).join(', ')
    const playing = shown(game?.players)
    if (shown(reported?.spec.connectedPlayers) === playing && shown(stored) === playing) continue
    throw new Violation(
      `${metadata.name} has players ${playing}; the fleet reports ${reported?.spec.connectedPlayers.join(', ')}, the store has ${stored.join(', ')}`,
    )
  }
}

function checkNothingLeft({ servers }: FleetSnapshot, { store, backend, invariants }: SimulationContext): void {
  // An instance whose record was deleted while there was no leader keeps running until its match is over.
  const isUnknownMatch = ({ spec, game }: ModelInstance) =>
    invariants.sessions.hasNoRecord(spec.uid) && game?.state === 'Active'
  const left = [...backend.instances].flatMap(([key, one]) => (servers.has(key) || isUnknownMatch(one) ? [] : [key]))
  if (left.length > 0) throw new Violation(`instances were left behind: ${left.join(', ')}`)
  // In a shared store, a late call may write the detail of a deleted server, so details are not checked there.
  const details = store.shared ? [] : store.details.keys()
  const records = [...store.servers.keys(), ...details].filter((key) => !servers.has(key))
  if (records.length > 0) throw new Violation(`records were left behind: ${records.join(', ')}`)
}

/** Allowance for reaching a session limit: the fleet checks once a second and then has to write the result. */
const reactionMs = 5_000

/** True if the session may not have reached its limit yet. A new leader relies on its wall clock, which may be wrong. */
function hasLimitAhead(server: GameServer, { host, builds }: FleetSnapshot, skewMs: number): boolean {
  const { reachedActiveOn, state } = server.status
  const { sessionSeconds } = builds.find(({ metadata }) => metadata.name === buildNameOf(server))?.spec.health ?? {}
  if (state !== 'Active' || reachedActiveOn === undefined || sessionSeconds === undefined) return false
  return Date.parse(reachedActiveOn) + sessionSeconds * 1_000 + reactionMs + skewMs >= host.clock().now()
}

function lacksPorts(conditions: readonly Pick<Condition, 'reason'>[] = []): boolean {
  return conditions.some(({ reason }) => reason === 'ports-exhausted')
}

/** True if the server has no port, or has the one that something else holds and there is no other. */
function waitsForPort({ metadata, status }: GameServer, backend: BackendModel): boolean {
  if (status.message === createRefusals.noFreePort) return true
  return status.state === 'Pending' && !backend.hasUsablePort && backend.instances.get(keyOf(metadata))?.hangs === true
}
