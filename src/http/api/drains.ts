/** The operations that drain a server, a build or the fleet, and that end the drain of a build. */
import { accepted } from '../../contracts/invalid-input.js'
import type { Builds, Fleet, Servers } from '../../contracts/fleet.js'
import type { DrainOptions, DrainResult } from '../../contracts/options.js'
import { drainRequest } from '../../rules/schemas/drain.js'
import { compile, type Validator } from '../../rules/validation/validator.js'
import { eitherSignal } from '../../util/signals.js'
import { callerOf } from '../access/caller.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { type HttpResponse, json } from '../core/http-response.js'
import { readOptionalJson } from '../core/read-json.js'
import { slowAnswer } from '../core/slow-answer.js'
import type { Dialect } from './compat.js'
import { refOf } from './parameters.js'

export interface DrainableFleet {
  readonly builds: Pick<Builds, 'drain' | 'resume'>
  readonly servers: Pick<Servers, 'drain'>
  /** If absent, `/api/v1/drain` is not served. */
  readonly drain?: Fleet['drain']
}

export interface DrainPathsOptions {
  readonly maxBodyBytes: number
  readonly dialect: Dialect
  readonly closing: AbortSignal
}

type Drain = (exchange: Exchange, options: DrainOptions) => Promise<DrainResult>

const checkRequest: Validator<Pick<DrainOptions, 'active' | 'deadlineMs'>> = compile(drainRequest)

export function drainPaths(
  { builds, servers, drain }: DrainableFleet,
  { maxBodyBytes, dialect, closing }: DrainPathsOptions,
): RouteGroup['paths'] {
  const draining = (call: Drain) => async (exchange: Exchange) => {
    const request = accepted(checkRequest(await readOptionalJson(exchange, maxBodyBytes)))
    return answerTo(exchange, closing, (signal) => call(exchange, { ...request, signal, caller: callerOf(exchange) }))
  }
  return {
    '/api/v1/gameserverbuilds/:namespace/:name/drain': {
      POST: operation(
        'drainBuild',
        draining((exchange, options) => builds.drain(refOf(exchange), options)),
      ),
    },
    '/api/v1/gameserverbuilds/:namespace/:name/resume': {
      POST: operation('resumeBuild', async (exchange) => {
        await readOptionalJson(exchange, maxBodyBytes)
        return json(200, dialect.build(await builds.resume(refOf(exchange), { caller: callerOf(exchange) })))
      }),
    },
    '/api/v1/gameservers/:namespace/:name/drain': {
      POST: operation(
        'drainServer',
        draining((exchange, options) => servers.drain(refOf(exchange), options)),
      ),
    },
    ...(drain && {
      '/api/v1/drain': {
        POST: operation(
          'drainFleet',
          draining((_, options) => drain(options)),
        ),
      },
    }),
  }
}

/** Stops waiting when the caller disconnects or this host closes. The drain itself continues. */
async function answerTo(
  exchange: Exchange,
  closing: AbortSignal,
  call: (signal: AbortSignal) => Promise<unknown>,
): Promise<HttpResponse> {
  const either = eitherSignal(exchange.signal(), closing)
  return slowAnswer(call(either.signal).finally(() => either.release()))
}
