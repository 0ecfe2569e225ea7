/** A ready-made `authorize` hook: bearer tokens with roles, compared in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { FleetError } from '../../contracts/errors.js'
import { isObject, shown } from '../../rules/validation/problem.js'
import type { ApiRequest } from '../core/exchange.js'
import { type Role, roles as everyRole } from '../operations.js'
import type { Authorize } from './guard.js'

export interface BearerToken {
  /** At least 16 characters: letters, digits or `-._~+/=`. Generate one with `openssl rand -hex 32`. */
  readonly token: string
  /** `manage` includes `read`. */
  readonly roles: readonly Role[]
  /** Names the token's callers in the audit, for example `matchmaker`. Default: the token's place, such as `tokens[0]`. */
  readonly name?: string
}

const minLength = 16
const tokenCharacters = /^[\w.~+/=-]+$/
const maxNameLength = 200

/**
 * `authorize: bearerTokens([{ token, roles: ['allocate'] }])`. Several tokens may be valid at once, so that a token can be
 * replaced while clients still use the old one. A request without a known token gets 401; a request whose token lacks the
 * role gets 403. Throws `invalid` for an empty list, an unknown role, an unusable name, or a token that is too short or has characters
 * that a header cannot contain.
 */
export function bearerTokens(tokens: readonly BearerToken[]): Authorize {
  checkTokens(tokens)
  if (tokens.length === 0) throw new FleetError('invalid', 'bearerTokens needs at least one token')
  const accepted = tokens.map(({ token, roles, name: given }, index) => {
    const name = given ?? `tokens[${index}]`
    checkToken(token, `tokens[${index}]`)
    checkName(name, `tokens[${index}]`)
    const wrong = roles.find((role) => !everyRole.includes(role))
    if (wrong !== undefined || roles.length === 0) {
      throw new FleetError('invalid', `tokens[${index}].roles must list one or more of ${everyRole.join(', ')}`)
    }
    return {
      digest: digestOf(token),
      name,
      roles: new Set<Role>(roles.includes('manage') ? [...roles, 'read'] : roles),
    }
  })

  return (request, { name, role }) => {
    const token = tokenIn(request)
    if (token === undefined) {
      throw new FleetError('unauthenticated', 'a token is required: Authorization: Bearer <token>')
    }
    const digest = digestOf(token)
    let isKnown = false
    let caller: string | undefined
    // Compares the token with every known token, so that the response time reveals nothing about any of them.
    for (const candidate of accepted) {
      const same = timingSafeEqual(digest, candidate.digest)
      isKnown ||= same
      if (same && candidate.roles.has(role)) caller ??= candidate.name
    }
    if (!isKnown) throw new FleetError('unauthenticated', 'unknown token')
    if (caller === undefined)
      throw new FleetError('forbidden', `the operation ${name} requires the role ${role}, which this token lacks`)
    return { caller, kind: 'token' }
  }
}

/** Throws `invalid`. Error messages never contain the token. */
function checkToken(token: string, field: string): void {
  if (typeof token !== 'string' || token.length < minLength) {
    throw new FleetError('invalid', `${field}.token must have at least ${minLength} characters`)
  }
  if (!tokenCharacters.test(token)) {
    throw new FleetError('invalid', `${field}.token may contain only letters, digits and -._~+/=`)
  }
}

/** Throws `invalid`. */
function checkName(name: string, field: string): void {
  // eslint-disable-next-line no-control-regex -- the pattern must match control characters
  if (typeof name === 'string' && name !== '' && name.length <= maxNameLength && !/[\u0000-\u001f\u007f]/.test(name))
    return
  throw new FleetError('invalid', `${field}.name must have 1 to ${maxNameLength} characters and no control characters`)
}

/** The bearer token of a request, verified or not. */
export function tokenIn(request: ApiRequest): string | undefined {
  return /^Bearer +([^ ]+) *$/i.exec(request.header('authorization') ?? '')?.[1]
}

/** Tokens are hashed because constant-time comparison needs inputs of equal length. */
export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function checkTokens(tokens: unknown): void {
  if (Array.isArray(tokens) && tokens.every(isObject)) return
  throw new FleetError('invalid', `bearerTokens takes an array, such as [{ token, roles }], but got ${shown(tokens)}`)
}
