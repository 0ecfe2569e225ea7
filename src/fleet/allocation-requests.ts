/** Carries out the allocations that are requested through the store, while this host leads. */
import type { AllocateOptions, AllocateRequested, Allocation } from '../contracts/sessions.js'
import { FleetError } from '../contracts/errors.js'
import type { FleetLimits } from '../contracts/options.js'
import type { Store } from '../contracts/store.js'
import type { Inventory } from '../engine/state/inventory.js'
import { type AllocationRequest, keyOf } from '../rules/model/resources.js'
import { sizeLimits } from '../rules/model/sizes.js'
import { shown } from '../rules/validation/problem.js'
import { readAllocationRequest } from '../rules/validation/allocation-schema.js'
import type { LeaderTerm } from './leader-term.js'
import { refusedRequest } from './audit.js'

interface AllocationRequestsDependencies {
  readonly store: Pick<Store, 'serveAllocations'>
  readonly term: LeaderTerm
  /** As `Fleet.allocate`, which checks the request. */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  readonly limits: Pick<FleetLimits, 'maxWaitMs'>
}

/** Returns a function that stops it. */
export function followAllocationRequests({
  store,
  term,
  allocate,
  limits: { maxWaitMs },
}: AllocationRequestsDependencies): () => Promise<void> {
  if (!store.serveAllocations) return async () => {}
  const carryOut: AllocateRequested = async ({ namespace, request, waitMs, caller, signal }) => {
    const { inventory } = term.engine()
    const own = withinNamespace(inventory, namespace, request)
    const allocation = await allocate(own, { waitMs: Math.min(waitMs, maxWaitMs), caller, signal })
    // Another caller may have allocated the session meanwhile.
    if (allocation.server.namespace !== namespace) throw foreignSession(own.sessionID)
    return { allocation, node: inventory.servers.get(keyOf(allocation.server))?.record.node }
  }
  let stop: (() => void) | undefined
  const change = () => {
    if (term.leads()) stop ??= store.serveAllocations?.(carryOut)
    else {
      stop?.()
      stop = undefined
    }
  }
  const unlisten = term.emitter.on('LeadershipChanged', change)
  change()
  return async () => {
    unlisten()
    stop?.()
  }
}

/**
 * The request without the builds of other namespaces: who may request allocations in one namespace may not use the servers of others.
 * Throws the error of the allocation if none is left.
 */
function withinNamespace(inventory: Inventory, namespace: string, request: unknown): AllocationRequest {
  const checked = readAllocationRequest(request)
  if (!checked.ok) throw refusedRequest(checked.problem)
  const { buildID, select, server, sessionID } = checked.value
  const holder = inventory.serverBySession(sessionID)
  if (holder && holder.ref.namespace !== namespace) throw foreignSession(sessionID)
  // The session keeps its server, whatever has become of its build.
  if (holder) return checked.value
  if (server) {
    if ((server.namespace ?? namespace) === namespace) return { ...checked.value, server: { ...server, namespace } }
    throw new FleetError('not-found', `server.namespace: must be ${namespace}, the namespace of this object`)
  }
  const isOwn = (id: string) => inventory.buildByID(id)?.ref.namespace === namespace
  if (buildID !== undefined && !isOwn(buildID)) {
    const named = inventory.builds.get(keyOf({ namespace, name: buildID }))
    const hint = named ? `; build ${buildID} has the buildID ${shown(named.record.spec.buildID)}` : ''
    throw new FleetError(
      'not-found',
      `buildID: no build in namespace ${namespace} has the buildID ${shown(buildID)}${hint}`,
    )
  }
  if (!select) return checked.value
  const own = select
    .map((selector) => {
      const { builds, buildLabels = {} } = selector
      const named = builds ?? inventory.buildsWithLabels(buildLabels).map(({ record }) => record.spec.buildID)
      return { ...selector, builds: named.filter(isOwn).slice(0, sizeLimits.selectorBuilds) }
    })
    .filter(({ builds }) => builds.length > 0)
  if (own.length > 0) return { ...checked.value, select: own }
  throw new FleetError('not-found', `select: no build in namespace ${namespace} is named by it`)
}

function foreignSession(sessionID: string): FleetError {
  return new FleetError('forbidden', `sessionID ${shown(sessionID)} is used by a server in another namespace`)
}
