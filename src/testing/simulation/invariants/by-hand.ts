/**
 * What is done in the store past every host is acted on: whoever leads goes by what the store holds, soon after it was
 * told, and a server whose record was removed does not go on. Only the time counts in which it could be told and look.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Build, keyOf, type Server } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import type { BackendModel } from '../backend-model.js'
import type { Host } from '../host.js'
import type { StoreModel } from '../store-model.js'
import type { World } from '../world.js'
import { breaksRule } from './rules.js'
import type { Seen } from './seen.js'

export interface ByHandParts {
  readonly store: StoreModel
  readonly backend: BackendModel
}

export interface ByHandLimits {
  /** Within which an edit is acted on. */
  readonly editMs: number
  /** Within which a server ends whose record was removed. */
  readonly endMs: number
}

interface Removed {
  readonly server: Server
  readonly fairMs: number
  /** The term of leadership then: in a later one a match is found on an instance that nobody knows, and is not ended. */
  readonly term: number
}

export class ByHand {
  #fairMs = 0
  #lookedAt = 0
  #leader: Host | undefined
  /** One host may lead twice, and knows nothing of what it knew. */
  #term = 0
  /** It has read the store, and is told what changes from then on. */
  #hasRead = false
  /** By what is not as it should be, in words: since when. */
  #since = new Map<string, number>()
  readonly #removed = new Map<string, Removed>()

  constructor(
    readonly world: World,
    readonly parts: () => ByHandParts,
    readonly limits: ByHandLimits,
  ) {}

  /** The record of this server is about to be removed. */
  removed(server: Server): void {
    // Whoever is about to read the store does not find it there: to him it was removed in the term before.
    const term = this.#hasRead ? this.#term : this.#term - 1
    this.#removed.set(server.uid, { server, fairMs: this.#fairMs, term })
  }

  /** Called at every step. `hasRead`: the leader knows what is in the store; `fair`: and it can do its work. */
  passed(fair: boolean, hasRead: boolean, leader: Host | undefined): void {
    const { store } = this.parts()
    if (leader !== this.#leader) {
      this.#since = new Map()
      this.#term++
    }
    this.#leader = leader
    this.#hasRead = hasRead
    const isTold = leader !== undefined && !store.mute && !store.watches.isDeaf(leader)
    if (fair && hasRead && isTold) this.#fairMs += this.world.elapsedMs - this.#lookedAt
    this.#lookedAt = this.world.elapsedMs
  }

  check(seen: Seen): void {
    const { store } = this.parts()
    if (!store.watched) return
    const wrong = [...this.#wrongBuilds(seen)]
    this.#since = new Map(wrong.map((what) => [what, this.#since.get(what) ?? this.#fairMs]))
    for (const [what, since] of this.#since) {
      const ms = this.#fairMs - since
      if (ms > this.limits.editMs) this.world.breach(`not acted on for ${ms / 1000} s: ${what}`)
    }
    for (const [uid, removed] of this.#removed) this.#checkRemoved(uid, removed)
  }

  *#wrongBuilds({ builds }: Seen): Generator<string> {
    const { store } = this.parts()
    const known = new Map(builds.map((build) => [keyOf(build.metadata), build]))
    const all = [...store.builds.values()].map(({ record }) => record)
    for (const record of all) {
      const build = known.get(keyOf(record))
      if (!build) yield `build ${record.name} was created`
      else if (!isDeepStrictEqual(build.spec, record.spec)) {
        yield `build ${record.name} has ${JSON.stringify(record.spec)}, the fleet ${JSON.stringify(build.spec)}`
      } else yield* wrongConditions(build, all)
      if (build && hasTooMany(build)) yield `build ${record.name} has too many servers for max ${build.spec.max}`
    }
    for (const [key, { metadata }] of known) if (!store.builds.has(key)) yield `build ${metadata.name} was deleted`
  }

  #checkRemoved(uid: string, { server, fairMs, term }: Removed): void {
    const instance = this.parts().backend.instances.get(keyOf(server))
    if (instance?.spec.uid !== uid) return void this.#removed.delete(uid)
    if (term !== this.#term && instance.game?.state === 'Active') return
    const ms = this.#fairMs - fairMs
    if (ms <= this.limits.endMs) return
    this.world.breach(`the record of ${server.name} was deleted, and it goes on for ${ms / 1000} s`)
  }
}

/** What its spec breaks is told, and nothing else. */
function* wrongConditions({ metadata, spec, status }: GameServerBuild, all: readonly Build[]): Generator<string> {
  const told = (type: string) => status.conditions?.some((condition) => condition.type === type) === true
  if (told('Clamped') !== spec.standingBy > spec.max) {
    yield `build ${metadata.name} has standingBy ${spec.standingBy}, max ${spec.max}: Clamped is ${told('Clamped')}`
  }
  // Of two that claim one buildID one is wrong, and which one it is depends on who came first.
  const claimed = all.filter((other) => other.spec.buildID === spec.buildID).length
  if (claimed === 1 && told('Invalid') !== breaksRule(spec)) {
    yield `build ${metadata.name} has ${JSON.stringify(spec)}: Invalid is ${told('Invalid')}`
  }
}

function hasTooMany({ spec, status }: GameServerBuild): boolean {
  const idle = status.currentPending + status.currentInitializing + status.currentStandingBy
  return idle > 0 && idle + status.currentActive > spec.max
}
