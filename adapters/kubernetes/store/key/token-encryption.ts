/**
 * Encrypts server tokens with a key kept in a Secret, so that users who may read servers but not secrets cannot send
 * heartbeats on a server's behalf.
 */
import { createHmac } from 'node:crypto'
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import type { TokenKey } from '../objects/server-object.js'
import { keyBytes } from './key-secret.js'
import { nonceBytes, seal, unseal } from './sealing.js'

export interface TokenEncryptionDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /** Undefined while this host knows no key. */
  readonly key: () => Buffer | undefined
}

export function tokenEncryption({ clock, logger, key }: TokenEncryptionDependencies): TokenKey {
  const replacement = Buffer.from(clock.randomBytes(keyBytes))
  return {
    encrypt(token, uid) {
      const current = key()
      if (!current) throw new FleetError('unavailable', 'this host does not know the key of the fleet')
      return seal(current, token, uid, clock.randomBytes(nonceBytes))
    },
    isGenuine(encrypted, uid) {
      const current = key()
      return current !== undefined && unseal(current, encrypted, uid) !== undefined
    },
    decrypt(encrypted, uid) {
      const current = key()
      const token = current && unseal(current, encrypted, uid)
      if (token !== undefined) return { token }
      if (current) logger.warn({ uid }, 'cannot decrypt a server token: it was encrypted with another key')
      // Unguessable without the key, and the same on every read.
      const text = `in place of ${encrypted} of ${uid}`
      return {
        token: createHmac('sha256', current ?? replacement)
          .update(text)
          .digest('hex'),
        tokenLost: true,
      }
    },
  }
}
