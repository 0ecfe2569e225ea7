/** The operations that apply a build and that change any part of its spec. */
import type { AuditedCallOptions } from '../../contracts/audit.js'
import { FleetError } from '../../contracts/errors.js'
import type { Builds } from '../../contracts/fleet.js'
import type { Ref } from '../../rules/model/resources.js'
import { isObject, shown } from '../../rules/validation/problem.js'
import { callerOf } from '../access/caller.js'
import type { Exchange, Handler } from '../core/exchange.js'
import { json } from '../core/http-response.js'
import type { Dialect } from './compat.js'
import { refOf } from './parameters.js'

/** Bodies are passed on unchecked: the fleet validates them. */
export interface ChangeableBuilds {
  apply(build: unknown, options?: AuditedCallOptions): ReturnType<Builds['apply']>
  update(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Builds['update']>
}

type BodyOf = (exchange: Exchange) => Promise<unknown>

export function applyBuild(builds: ChangeableBuilds, dialect: Dialect, bodyOf: BodyOf): Handler {
  return async (exchange) => {
    const input = withRef(dialect.input(await bodyOf(exchange)), refOf(exchange))
    const { result, build } = await builds.apply(input, { caller: callerOf(exchange) })
    return json(200, { result, build: dialect.build(build) })
  }
}

/** In JSON, `null` removes an optional field. */
export function updateBuild(builds: ChangeableBuilds, dialect: Dialect, bodyOf: BodyOf): Handler {
  return async (exchange) => {
    const body = await bodyOf(exchange)
    const change = isObject(body)
      ? Object.fromEntries(Object.entries(body).map(([field, value]) => [field, value ?? undefined]))
      : body
    return json(200, dialect.build(await builds.update(refOf(exchange), change, { caller: callerOf(exchange) })))
  }
}

/** The body may leave out what the path says, and must not say anything else. */
function withRef(body: unknown, ref: Ref): unknown {
  if (!isObject(body)) return body
  const { metadata = {} } = body
  if (!isObject(metadata)) return body
  for (const field of ['namespace', 'name'] as const) {
    const value = metadata[field] ?? ref[field]
    if (value === ref[field]) continue
    throw new FleetError(
      'invalid',
      `metadata.${field} must be ${shown(ref[field])}, as in the path, but is ${shown(value)}`,
    )
  }
  return { ...body, metadata: { ...metadata, ...ref } }
}
