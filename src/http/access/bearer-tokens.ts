/** A ready-made `authorize`: several bearer tokens, each with its roles, compared in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { FleetError } from '../../contracts/errors.js'
import type { Authorize } from './guard.js'
import { type Role, roles as everyRole } from '../api/operations.js'

export interface BearerToken {
  /** At least 16 characters that a header can hold: `openssl rand -hex 32` makes a good one. */
  readonly token: string
  /** `manage` may also read. */
  readonly roles: readonly Role[]
}

const leastLength = 16
const tokenCharacters = /^[\w.~+/=-]+$/

/**
 * `authorize: bearerTokens([{ token, roles: ['allocate'] }])`. Several may be good at once, so that one can be replaced
 * while the old one is still in use. Without a known token a request is 401, with one whose roles do not do 403. Throws
 * `invalid` for no tokens, a short one, one that no header can hold, and a role that there is not.
 */
export function bearerTokens(tokens: readonly BearerToken[]): Authorize {
  if (tokens.length === 0) throw new FleetError('invalid', 'bearerTokens needs at least one token')
  const known = tokens.map(({ token, roles }, index) => {
    checkToken(token, `tokens[${index}]`)
    const wrong = roles.find((role) => !everyRole.includes(role))
    if (wrong !== undefined || roles.length === 0) {
      throw new FleetError('invalid', `tokens[${index}].roles must name some of ${everyRole.join(', ')}`)
    }
    return { digest: digestOf(token), roles: new Set<Role>(roles.includes('manage') ? [...roles, 'read'] : roles) }
  })

  return (request, { name, role }) => {
    const given = /^Bearer +([^ ]+) *$/i.exec(request.header('authorization') ?? '')?.[1]
    if (given === undefined) {
      throw new FleetError('unauthenticated', 'this API wants a token: Authorization: Bearer <token>')
    }
    const digest = digestOf(given)
    let isKnown = false
    let may = false
    // All of them, whichever it is: how long this takes tells nothing about any token.
    for (const each of known) {
      const same = timingSafeEqual(digest, each.digest)
      isKnown ||= same
      may ||= same && each.roles.has(role)
    }
    if (!isKnown) throw new FleetError('unauthenticated', 'this token is not known here')
    if (!may) throw new FleetError('forbidden', `this token may not ask for ${name}, which takes the role ${role}`)
    return true
  }
}

/** Throws `invalid`. Never shows the token. */
function checkToken(token: string, where: string): void {
  if (typeof token !== 'string' || token.length < leastLength) {
    throw new FleetError('invalid', `${where}.token must have at least ${leastLength} characters`)
  }
  if (!tokenCharacters.test(token)) {
    throw new FleetError('invalid', `${where}.token may hold letters, digits and -._~+/= only`)
  }
}

/** Of one length for all tokens, which comparing in constant time needs. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
