/** The operations that mark servers for a time: reservations, and maintenance of a server or a node. */
import { accepted } from '../../contracts/invalid-input.js'
import type { MaintenanceTarget, Servers } from '../../contracts/fleet.js'
import { maintenanceRequest } from '../../rules/schemas/maintenance.js'
import { readReservation } from '../../rules/validation/reservation.js'
import { compile, type Validator } from '../../rules/validation/validator.js'
import { callerOf } from '../access/caller.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { readJson } from '../core/read-json.js'
import { refOf } from './parameters.js'

type MaintainedServers = Pick<Servers, 'announceMaintenance' | 'withdrawMaintenance'>

const checkRequest: Validator<{ readonly at: string }> = compile(maintenanceRequest)

export function maintenancePaths(servers: MaintainedServers, maxBodyBytes: number): RouteGroup['paths'] {
  const announce = (targetOf: (exchange: Exchange) => MaintenanceTarget) => async (exchange: Exchange) => {
    const { at } = accepted(checkRequest(await readJson(exchange, maxBodyBytes)))
    return json(
      200,
      await servers.announceMaintenance(targetOf(exchange), new Date(at), { caller: callerOf(exchange) }),
    )
  }
  const withdraw = (targetOf: (exchange: Exchange) => MaintenanceTarget) => async (exchange: Exchange) =>
    json(200, await servers.withdrawMaintenance(targetOf(exchange), { caller: callerOf(exchange) }))

  return {
    '/api/v1/gameservers/:namespace/:name/maintenance': {
      POST: operation('announceServerMaintenance', announce(serverOf)),
      DELETE: operation('withdrawServerMaintenance', withdraw(serverOf)),
    },
    '/api/v1/nodes/:node/maintenance': {
      POST: operation('announceNodeMaintenance', announce(nodeOf)),
      DELETE: operation('withdrawNodeMaintenance', withdraw(nodeOf)),
    },
  }
}

export function reservationPaths(
  servers: Pick<Servers, 'release' | 'reserve'>,
  maxBodyBytes: number,
): RouteGroup['paths'] {
  return {
    '/api/v1/gameservers/:namespace/:name/reservation': {
      POST: operation('reserveServer', async (exchange) => {
        const { forMs } = accepted(readReservation(await readJson(exchange, maxBodyBytes)))
        const options = { forMs, caller: callerOf(exchange) }
        return json(200, await servers.reserve(refOf(exchange), options))
      }),
      DELETE: operation('releaseServer', async (exchange) =>
        json(200, await servers.release(refOf(exchange), { caller: callerOf(exchange) })),
      ),
    },
  }
}

function serverOf(exchange: Exchange): MaintenanceTarget {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}

function nodeOf(exchange: Exchange): MaintenanceTarget {
  return { node: exchange.param('node') }
}
