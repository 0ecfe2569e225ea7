/** Once nothing fails any more: everything is as the builds want it, all records tell the same, and it stays quiet. */
import { isDeepStrictEqual } from 'node:util'
import { type Condition, keyOf } from '../../../rules/model/resources.js'
import { rolloutBatch } from '../../../rules/planning/rollout.js'
import { buildHealth } from '../../../rules/model/status.js'
import type { GameServer, GameServerBuild } from '../../../rules/model/wire.js'
import type { ModelInstance } from '../backend-model.js'
import type { Scene } from '../scene.js'
import { Violation } from '../world.js'
import type { Records } from './records.js'
import { runs } from './rollout.js'
import { buildNameOf, isDraining, isInvalid, look, type Seen } from './seen.js'

/** Throws a Violation. `passTime` lets some minutes pass, in which a settled fleet makes no call. */
export async function checkRest(scene: Scene, records: Records, passTime: () => Promise<void>): Promise<void> {
  const { leader } = scene.lease
  const seen = leader?.fleet && (await look(leader, leader.fleet))
  if (!seen) throw new Violation('no host leads although nothing fails')
  for (const build of seen.builds) checkBuild(build, scene, records)
  for (const server of seen.servers.values()) checkServer(server, scene)
  await checkPlayers(seen, scene)
  checkNothingLeft(seen, scene)
  // Waiting for a port is no rest: the backend is asked again now and then. Nor is a limit that is still to come.
  const { skewMs } = scene.world
  if ([...seen.servers.values()].some((server) => waitsForPort(server) || hasLimitAhead(server, seen, skewMs))) return
  const before = made(scene)
  await passTime()
  const after = made(scene)
  if (before !== after) throw new Violation(`a settled fleet made calls: ${before} before, ${after} after`)
}

function made({ store, backend }: Scene): string {
  // What is watched need not be looked at again.
  const asked = store.watched ? `${store.calls} calls, ` : ''
  return `${asked}${store.changes} writes, ${backend.calls} creations and deletions`
}

function checkBuild(build: GameServerBuild, { store }: Scene, records: Records): void {
  const { spec, status, metadata } = build
  const wanted = isDraining(build) ? 0 : Math.max(0, Math.min(spec.standingBy, spec.max - status.currentActive))
  const idle = status.currentPending + status.currentInitializing + status.currentStandingBy
  // It gets no new servers, and keeps what it has.
  const isStopped = status.health === 'Unhealthy' || isInvalid(build)
  // Stopped in the middle of a change it has those that were to take the place of others as well.
  const atMost = wanted + (isInvalid(build) && status.rollout ? rolloutBatch(wanted) : 0)
  const enough = isStopped ? idle <= atMost : idle === wanted
  // With no port left there is nothing that the fleet could do.
  if (!lacksPorts(status.conditions) && (!enough || (!isStopped && status.currentStandingBy !== wanted))) {
    const { standingBy, max } = spec
    throw new Violation(
      `build ${metadata.name} did not come to rest: ${JSON.stringify({ spec: { standingBy, max }, status })}`,
    )
  }
  const record = store.builds.get(keyOf(metadata))?.record
  if (!record || !isDeepStrictEqual(record.spec, spec)) {
    const [asked, has] = [record?.spec, spec].map((one) => JSON.stringify(one))
    throw new Violation(`build ${metadata.name} asks for ${asked} in the store, the fleet has ${has}`)
  }
  const [least, most] = records.crashesOf(record.uid)
  if (status.crashesCount !== record.crashes || record.crashes < least || record.crashes > most) {
    throw new Violation(
      `build ${metadata.name} counts ${status.crashesCount} crashes, ${record.crashes} in the store, and had ${least}`,
    )
  }
}

function checkServer(server: GameServer, { store, backend }: Scene): void {
  const { state, sessionID } = server.status
  const { name } = server.metadata
  const record = store.servers.get(keyOf(server.metadata))?.record
  if (record?.state !== state || (state === 'Active' && record.session?.id !== sessionID)) {
    throw new Violation(`the store has ${name} as ${record?.state}, the fleet as ${state}`)
  }
  if (waitsForPort(server)) return
  const build = store.builds.get(keyOf({ namespace: record.namespace, name: record.build }))?.record
  const breaksRule = build?.conditions.some(({ type }) => type === 'Invalid')
  // It is started as soon as the spec of its build can be followed.
  if (state === 'Pending' && breaksRule) return
  if (state !== 'StandingBy' && state !== 'Active') {
    throw new Violation(`${name} is still ${state}: ${server.status.message ?? 'nobody knows why'}`)
  }
  const instance = backend.instances.get(keyOf(server.metadata))
  // A build that gets no new servers keeps those that it has.
  const mayBeReplaced =
    build !== undefined && buildHealth(build) === 'Healthy' && !breaksRule && !lacksPorts(build.conditions)
  if (state === 'StandingBy' && instance && mayBeReplaced && !runs(instance.spec, build.spec)) {
    throw new Violation(`${name} stands by and does not run what its build says`)
  }
  const game = instance?.game
  if (!game?.running) throw new Violation(`${name} is ${state}, and its process does not run`)
  if (state === 'Active' && game.session !== sessionID) {
    throw new Violation(`${name} was handed to ${sessionID}, and its game never heard of it`)
  }
}

async function checkPlayers({ host, servers }: Seen, { store, backend }: Scene): Promise<void> {
  for (const { metadata } of servers.values()) {
    const game = backend.instances.get(keyOf(metadata))?.game
    const told = await host.fleet?.details.get(metadata)
    const kept = store.details.get(keyOf(metadata))?.record.players ?? []
    const plays = game?.players.join(', ') ?? ''
    if (told?.spec.connectedPlayers.join(', ') === plays && kept.join(', ') === plays) continue
    throw new Violation(
      `on ${metadata.name} are ${plays}; the fleet says ${told?.spec.connectedPlayers.join(', ')}, the store ${kept.join(', ')}`,
    )
  }
}

function checkNothingLeft({ servers }: Seen, { store, backend, sessions }: Scene): void {
  // Its record was deleted while nobody led: nobody knows the match on it, and it is left to end.
  const playsOn = ({ spec, game }: ModelInstance) => sessions.isDisowned(spec.uid) && game?.state === 'Active'
  const left = [...backend.instances].flatMap(([key, one]) => (servers.has(key) || playsOn(one) ? [] : [key]))
  if (left.length > 0) throw new Violation(`instances were left behind: ${left.join(', ')}`)
  // The detail of a server that is gone may be written by a call that took effect long after it had failed.
  const details = store.shared ? [] : store.details.keys()
  const records = [...store.servers.keys(), ...details].filter((key) => !servers.has(key))
  if (records.length > 0) throw new Violation(`records were left behind: ${records.join(', ')}`)
}

/** The fleet looks once a second, and has to write what it sees. */
const noticeMs = 5_000

/** Its session may last longer. How long it has, some hosts have measured, and others can only read off a clock that was set. */
function hasLimitAhead(server: GameServer, { host, builds }: Seen, skewMs: number): boolean {
  const { reachedActiveOn, state } = server.status
  const { sessionSeconds } = builds.find(({ metadata }) => metadata.name === buildNameOf(server))?.spec.health ?? {}
  if (state !== 'Active' || reachedActiveOn === undefined || sessionSeconds === undefined) return false
  return Date.parse(reachedActiveOn) + sessionSeconds * 1_000 + noticeMs + skewMs >= host.clock().now()
}

function lacksPorts(conditions: readonly Pick<Condition, 'reason'>[] = []): boolean {
  return conditions.some(({ reason }) => reason === 'ports-exhausted')
}

function waitsForPort({ status }: GameServer): boolean {
  return status.message === 'no port is free'
}
