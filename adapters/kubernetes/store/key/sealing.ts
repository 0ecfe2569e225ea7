/** Seals server tokens with AES-256-GCM, bound to the server's uid. Pure but for the nonce, which the caller brings. */
import { createCipheriv, createDecipheriv } from 'node:crypto'

const algorithm = 'aes-256-gcm'
export const nonceBytes = 12
const tagBytes = 16

export function seal(key: Buffer, token: string, uid: string, nonce: Uint8Array): string {
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(uid))
  const encrypted = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64')
}

/** Whether the text can be a sealed token, with whatever key. */
export function isSealed(text: string): boolean {
  return /^[\w+/]+=*$/.test(text) && Buffer.from(text, 'base64').length > nonceBytes + tagBytes
}

/** Undefined if the token was sealed with another key or for another server. */
export function unseal(key: Buffer, sealed: string, uid: string): string | undefined {
  try {
    const bytes = Buffer.from(sealed, 'base64')
    const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes)).setAAD(Buffer.from(uid))
    decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
    const text = [decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()]
    return Buffer.concat(text).toString('utf8')
  } catch {
    return undefined
  }
}
