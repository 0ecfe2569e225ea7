/** Looks up builds and servers in the engine of the current leadership term and converts them to resources. Read-only. */
import { FleetError } from '../contracts/errors.js'
import type { BuildEntry, ServerEntry } from '../engine/state/entries.js'
import { lookUp } from '../engine/state/inventory.js'
import { countsOf, generationsOf } from '../engine/state/queries.js'
import { keyOf, type Ref, type RefLike } from '../rules/model/resources.js'
import {
  type GameServer,
  gameServer,
  type GameServerBuild,
  gameServerBuild,
  type GameServerDetail,
  gameServerDetail,
} from '../rules/model/wire.js'
import { defaultNamespace } from '../rules/validation/requests.js'
import type { LeaderTerm } from './leader-term.js'

export class ResourceView {
  readonly #term: LeaderTerm
  readonly apiGroup: string

  constructor(term: LeaderTerm, apiGroup: string) {
    this.#term = term
    this.apiGroup = apiGroup
  }

  /** Throws `not-found` if the build does not exist. */
  findBuild(like: RefLike): BuildEntry {
    return this.#term.engine().builds.find(toRef(like))
  }

  /** Throws `not-found` if the server does not exist. */
  findServer(like: RefLike): ServerEntry {
    const ref = toRef(like)
    const entry = lookUp(this.#term.engine().inventory.servers, ref)
    if (!entry) throw new FleetError('not-found', `server ${keyOf(ref)} does not exist`)
    return entry
  }

  build(build: BuildEntry): GameServerBuild {
    return gameServerBuild(build.record, countsOf(build), this.apiGroup, generationsOf(build))
  }

  server(entry: ServerEntry): GameServer {
    return gameServer(entry.record, this.apiGroup, entry.pendingReason)
  }

  detail(entry: ServerEntry): GameServerDetail {
    return gameServerDetail(entry.record, { ...entry.record, players: entry.players }, this.apiGroup)
  }
}

/** A string names a resource in the default namespace. */
export function toRef(like: RefLike): Ref {
  return typeof like === 'string'
    ? { namespace: defaultNamespace, name: like }
    : { namespace: like.namespace ?? defaultNamespace, name: like.name }
}
