/**
 * Seals servers' tokens with a key that is kept in a Secret of the cluster: whoever may read servers, but no secrets, cannot
 * speak for them. AES-256-GCM, bound to the server's uid.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, secrets } from '../client/kube-objects.js'
import type { TokenEncryption } from './server-object.js'

export const keySecretName = 'gamekeeper-key'
const field = 'key'
const cipher = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export interface TokenEncryptionOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** Where the Secret is, or is made by the first host that needs it. */
  readonly namespace: string
}

export async function openTokenEncryption(options: TokenEncryptionOptions): Promise<TokenEncryption> {
  const { clock, logger } = options
  const key = await keyOf(options)
  return {
    seal(token, uid) {
      const nonce = clock.randomBytes(nonceBytes)
      const sealing = createCipheriv(cipher, key, nonce).setAAD(Buffer.from(uid))
      const sealed = Buffer.concat([sealing.update(token, 'utf8'), sealing.final()])
      return Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64')
    },
    unseal(sealed, uid) {
      try {
        const bytes = Buffer.from(sealed, 'base64')
        const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes)).setAAD(Buffer.from(uid))
        opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
        return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()]).toString('utf8')
      } catch (error) {
        logger.warn({ uid, error: messageOf(error) }, 'the token of a server was sealed with another key')
        // As secret as the key, and the same at each reading.
        return createHmac('sha256', key).update(`in place of ${sealed} of ${uid}`).digest('hex')
      }
    },
  }
}

async function keyOf(options: TokenEncryptionOptions): Promise<Buffer> {
  const found = await read(options)
  if (found) return found
  const { api, clock, namespace } = options
  const data = { [field]: Buffer.from(clock.randomBytes(keyBytes)).toString('base64') }
  const body = { metadata: { name: keySecretName, namespace }, type: 'Opaque', data }
  const what = `create secret ${namespace}/${keySecretName}`
  try {
    const path = pathOf(secrets, { namespace })
    // The first host that comes makes it, before anybody leads.
    return keyIn(await api.object({ what, method: 'POST', path, body, unfenced: true }), namespace)
  } catch (error) {
    if (FleetError.is(error, 'not-found')) {
      throw new FleetError('invalid', `kubernetesBackend: namespace ${namespace} does not exist`, { cause: error })
    }
    // Another host was first.
    const theirs = FleetError.is(error, 'conflict') ? await read(options) : undefined
    if (theirs) return theirs
    throw error
  }
}

async function read({ api, namespace }: TokenEncryptionOptions): Promise<Buffer | undefined> {
  const path = pathOf(secrets, { namespace, name: keySecretName })
  try {
    return keyIn(
      await api.object({ what: `read secret ${namespace}/${keySecretName}`, method: 'GET', path }),
      namespace,
    )
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return undefined
    throw error
  }
}

function keyIn(secret: KubeObject, namespace: string): Buffer {
  const { data } = secret
  const text = isObject(data) ? data[field] : undefined
  const key = Buffer.from(typeof text === 'string' ? text : '', 'base64')
  if (key.length === keyBytes) return key
  throw new FleetError('invalid', `secret ${namespace}/${keySecretName} must hold ${keyBytes} bytes as data.${field}`)
}
