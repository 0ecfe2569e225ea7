/**
 * Invariants: a server that is allocated to a request with selectors fits one of them, and what the request changes is changed in the same
 * write.
 */
import type {
  AllocationInput,
  AllocationRequest,
  ServerSelector,
} from '../../../../src/rules/model/allocation-request.js'
import { type Build, keyOf, type Server } from '../../../../src/rules/model/resources.js'
import { noData } from '../../../../src/rules/lifecycle/server-data.js'
import { buildIDOf, buildNames, kindOf, someOrder } from '../../actors/build-specs.js'
import type { StoreModel } from '../../models/store-model.js'
import type { World } from '../../world/world.js'

const ticketsLeft = 2

export class Selections {
  readonly #requests = new Map<string, AllocationRequest>()
  /** All buildIDs that each build has had, by key: a host may not have seen an edit yet. */
  readonly #buildIDs = new Map<string, Set<string>>()

  constructor(
    readonly world: World,
    readonly store: () => StoreModel,
  ) {}

  /** Returns a random request with selectors. `ticket`: what it adds to the tickets of its server, if it changes them. */
  request(sessionID: string, ticket: string | undefined): AllocationInput {
    const { world } = this
    const builds = buildNames.filter(() => world.chance(0.6))
    const selector = (): ServerSelector => ({
      ...(world.chance(0.3)
        ? { buildLabels: { kind: kindOf(world.oneOf(buildNames) ?? '') } }
        : { builds: (builds.length > 0 ? builds : buildNames).map((name) => this.#currentIDOf(name)) }),
      ...(world.chance(0.5) && {
        matchExpressions: [
          { key: 'last', operator: world.chance(0.5) ? ('Exists' as const) : ('DoesNotExist' as const) },
        ],
      }),
      ...(world.chance(0.5) && { lists: { tickets: { minAvailable: ticketsLeft } } }),
      ...(world.chance(0.3) && { counters: { tickets: { minCount: 1 } } }),
    })
    const request = {
      select: world.chance(0.5) ? [selector()] : [selector(), selector()],
      sessionID,
      ...(world.chance(0.5) && { order: someOrder(world) }),
      ...(ticket !== undefined && { counters: { tickets: { increment: 1 } }, lists: { tickets: { add: [ticket] } } }),
    }
    this.#requests.set(sessionID, request)
    return request
  }

  /** Called when a build's record is written. */
  buildWritten(build: Build): void {
    const known = this.#buildIDs.get(keyOf(build))
    if (known) known.add(build.spec.buildID)
    else this.#buildIDs.set(keyOf(build), new Set([build.spec.buildID]))
  }

  /** Call before a request names its server, which need not be the first that is ready. */
  named(sessionID: string): void {
    this.#requests.set(sessionID, { sessionID })
  }

  isSelective(sessionID: string): boolean {
    return this.#requests.has(sessionID)
  }

  /** Called when a server's record is written. */
  serverWritten(before: Server | undefined, after: Server): void {
    if (!after.sessions[0] || before?.sessions[0] || after.state !== 'Active') return
    const request = this.#requests.get(after.sessions[0].id)
    if (!request?.select) return
    if (!request.select.some((selector) => this.#fits(after, selector, request.lists !== undefined))) {
      this.world.violate(
        `${after.name} does not fit the request for ${after.sessions[0].id}: ${JSON.stringify(request.select)}`,
      )
    }
    const [added = ''] = request.lists?.['tickets']?.add ?? []
    if (added === '' || after.data?.lists['tickets']?.values.includes(added)) return
    this.world.violate(`${after.name} was allocated to ${after.sessions[0].id} without what the request changes`)
  }

  /** `changed`: whether the data include one ticket more than when the server was chosen. */
  #fits(server: Server, selector: ServerSelector, changed: boolean): boolean {
    const { builds, buildLabels, matchExpressions = [], lists, counters } = selector
    const { labels, counters: counts, lists: tickets } = server.data ?? noData
    if (buildLabels && buildLabels['kind'] !== kindOf(server.build)) return false
    const ids = this.#buildIDs.get(keyOf({ namespace: server.namespace, name: server.build }))
    if (builds && !builds.some((id) => ids?.has(id))) return false
    const has = labels['last'] !== undefined
    if (matchExpressions.some(({ operator }) => (operator === 'Exists') !== has)) return false
    const added = changed ? 1 : 0
    const { values = [], capacity = 0 } = tickets['tickets'] ?? {}
    if (lists && capacity - values.length + added < ticketsLeft) return false
    return !counters || (counts['tickets']?.count ?? 0) - added >= 1
  }

  #currentIDOf(name: string): string {
    return this.store().builds.get(keyOf({ namespace: 'default', name }))?.record.spec.buildID ?? buildIDOf(name)
  }
}
