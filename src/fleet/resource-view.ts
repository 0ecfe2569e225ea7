/** Looks up builds and servers in the engine of the current leadership term and converts them to resources. Read-only. */
import { FleetError } from '../contracts/errors.js'
import type { BuildEntry, ServerEntry } from '../engine/state/entries.js'
import { lookUp } from '../engine/state/inventory.js'
import { countsOf, statusOf } from '../engine/state/queries.js'
import { secretMask } from '../rules/model/names.js'
import { keyOf, type Ref, type RefLike } from '../rules/model/resources.js'
import {
  type GameServer,
  gameServer,
  type GameServerBuild,
  gameServerBuild,
  type GameServerDetail,
  gameServerDetail,
} from '../rules/model/wire.js'
import { isObject, shown } from '../rules/validation/problem.js'
import { defaultNamespace } from '../rules/validation/build-schema.js'
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

  /** Returns a function that masks the server's secret, even if this host does not lead or the server no longer exists. */
  secretMask(ref: Ref): (line: string) => string {
    const entry = this.#term.leads() ? lookUp(this.#term.engine().inventory.servers, ref) : undefined
    return secretMask(ref.name, entry?.record.token)
  }

  build(build: BuildEntry): GameServerBuild {
    return gameServerBuild(build.record, countsOf(build), this.apiGroup, statusOf(build))
  }

  server(entry: ServerEntry): GameServer {
    return gameServer(entry.record, this.apiGroup, entry.pendingReason)
  }

  detail(entry: ServerEntry): GameServerDetail {
    return gameServerDetail(entry.record, { ...entry.record, players: entry.players }, this.apiGroup)
  }
}

/** A string names a resource in the default namespace. Throws `invalid` for anything else than a name or a reference. */
export function toRef(like: RefLike): Ref {
  const given: unknown = like
  if (typeof given !== 'string' && !(isObject(given) && typeof given['name'] === 'string')) {
    throw new FleetError('invalid', `expected a name or { namespace, name }, but got ${shown(given)}`)
  }
  return typeof like === 'string'
    ? { namespace: defaultNamespace, name: like }
    : { namespace: like.namespace ?? defaultNamespace, name: like.name }
}
