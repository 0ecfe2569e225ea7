/**
 * Encrypts server tokens with a key kept in a Secret, so that users who may read servers but not secrets cannot send
 * heartbeats on a server's behalf. Uses AES-256-GCM, bound to the server's uid.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, secrets } from '../client/kube-objects.js'
import type { TokenEncryption } from './objects/server-object.js'

export const keySecretName = 'gamekeeper-key'
const keyField = 'key'
const algorithm = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export interface TokenEncryptionDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** Namespace of the Secret, which the first host creates. */
  readonly namespace: string
}

export async function openTokenEncryption(deps: TokenEncryptionDependencies): Promise<TokenEncryption> {
  const { clock, logger } = deps
  const key = await loadKey(deps)
  return {
    encrypt(token, uid) {
      const nonce = clock.randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(uid))
      const encrypted = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64')
    },
    decrypt(encrypted, uid) {
      try {
        const bytes = Buffer.from(encrypted, 'base64')
        const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes)).setAAD(Buffer.from(uid))
        decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
        const text = [decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()]
        return { token: Buffer.concat(text).toString('utf8') }
      } catch (error) {
        logger.warn({ err: error, uid }, 'cannot decrypt a server token: it was encrypted with another key')
        // Unguessable without the key, and the same on every read.
        const token = createHmac('sha256', key).update(`in place of ${encrypted} of ${uid}`).digest('hex')
        return { token, tokenLost: true }
      }
    },
  }
}

async function loadKey(deps: TokenEncryptionDependencies): Promise<Buffer> {
  const existing = await readKey(deps)
  if (existing) return existing
  const { api, clock, namespace } = deps
  const data = { [keyField]: Buffer.from(clock.randomBytes(keyBytes)).toString('base64') }
  const body = { metadata: { name: keySecretName, namespace }, type: 'Opaque', data }
  const what = `create secret ${namespace}/${keySecretName}`
  try {
    const path = pathOf(secrets, { namespace })
    // Unfenced: the first host creates the Secret before any host is the leader.
    return keyIn(await api.object({ what, method: 'POST', path, body, unfenced: true }), namespace)
  } catch (error) {
    if (FleetError.is(error, 'not-found')) {
      throw new FleetError('invalid', `kubernetesBackend: namespace ${namespace} does not exist`, { cause: error })
    }
    // Another host may have created the Secret first.
    const existing = FleetError.is(error, 'conflict') ? await readKey(deps) : undefined
    if (existing) return existing
    throw error
  }
}

async function readKey({ api, namespace }: TokenEncryptionDependencies): Promise<Buffer | undefined> {
  const path = pathOf(secrets, { namespace, name: keySecretName })
  try {
    const what = `get secret ${namespace}/${keySecretName}`
    return keyIn(await api.object({ what, method: 'GET', path }), namespace)
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return undefined
    throw error
  }
}

function keyIn(secret: KubeObject, namespace: string): Buffer {
  const { data } = secret
  const text = isObject(data) ? data[keyField] : undefined
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64')
  if (key.length === keyBytes) return key
  const message = `secret ${namespace}/${keySecretName} must contain ${keyBytes} bytes in data.${keyField}`
  throw new FleetError('invalid', message)
}
