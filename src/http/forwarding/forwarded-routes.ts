/**
 * The routes that the fleet's other hosts reach, on a listener that admits them alone. What they forward is carried out here, or refused:
 * it is never forwarded again, so that two hosts cannot pass a request to and fro.
 */
import { agentListener, answering, type HeartbeatTarget } from '../../agent/index.js'
import { FleetError } from '../../contracts/errors.js'
import { type LeaderLink, leadsPath } from '../../contracts/elector.js'
import { internalsOf } from '../../fleet/internals.js'
import { discardRest } from '../../platform/http-server.js'
import { HttpError, retryAfter } from '../core/responses.js'
import type { RouteGroup, Routes } from '../routes/routes.js'
import { isForNextLeader, mayRepeat, notBegunHeader, readCaller } from './between-hosts.js'

/** The groups as other hosts use them: they have authorized the caller. */
export function forwardedGroups(fleet: object, groups: readonly RouteGroup[]): readonly RouteGroup[] {
  const link = internalsOf(fleet)?.link
  if (!link) return []
  const [first] = groups
  const answer = async () => {
    link.heard()
    if (!link.leads()) throw notBegun()
    return { status: 204 }
  }
  const pages = { [leadsPath]: answer }
  return [...groups.map((group) => forwardedGroup(group, link)), ...(first ? [{ ...first, handlers: {}, pages }] : [])]
}

/**
 * Also answers the heartbeats that other hosts pass on. The fleet answers each itself, or refuses it while it does not lead: the host that has
 * it then answers the game, and the connection between the hosts stays open.
 */
export function withHeartbeats(routes: Routes, fleet: HeartbeatTarget): Routes {
  const link = internalsOf(fleet)?.link
  const agent = agentListener(answering(fleet))
  return {
    ...routes,
    nodeHandler: (request, response) =>
      routes.nodeHandler(request, response, () => {
        if (link?.leads() !== false) return agent(request, response)
        response.writeHead(503, { 'Content-Length': 0, [notBegunHeader]: 'true' }).end()
        discardRest(request)
      }),
  }
}

/** The host that has received the request counts it. */
function forwardedGroup({ forward: _, observers: __, ...group }: RouteGroup, link: LeaderLink): RouteGroup {
  return {
    ...group,
    guard: {
      inFlight: group.guard.inFlight,
      before(operation, handle) {
        const failed = (error: unknown): never => {
          if (!mayRepeat(operation) || !isForNextLeader(error, link)) throw error
          throw new FleetError('not-leader', 'this host does not lead the fleet any more', { cause: error })
        }
        return (exchange) => {
          link.heard()
          if (!link.leads()) throw notBegun()
          exchange.forwardedCaller = readCaller(exchange)
          return handle(exchange).catch(failed)
        }
      },
    },
  }
}

function notBegun(): HttpError {
  const { code, message } = new FleetError('not-leader', 'this host does not lead the fleet')
  return new HttpError(503, code, message, { ...retryAfter(1_000), [notBegunHeader]: 'true' })
}
