/** The users that games run as. Looks names up on this machine. */
import { spawnSync } from 'node:child_process'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import type { RunAs } from '../options.js'
import { cannot, systemPath } from './programs.js'

export interface GameUser {
  readonly uid: number
  readonly gid: number
  /** Whether no other server runs as this user. */
  readonly own: boolean
}

export function isRoot(): boolean {
  return process.platform === 'linux' && process.geteuid?.() === 0
}

/** Throws `invalid` unless this host can start processes as other users. */
export function requireRoot(option: string): void {
  if (process.platform !== 'linux') throw cannot(option, 'it needs Linux')
  if (!isRoot()) throw cannot(option, 'this host must run as root, to start games as other users')
}

/** Throws `invalid` if there is no such user or group, and for root. */
export function readUser({ user, group }: RunAs): GameUser {
  const uid = typeof user === 'number' ? user : idOf('-u', user)
  const named = group ?? (typeof user === 'number' ? user : undefined)
  const gid = typeof named === 'number' ? named : named === undefined ? idOf('-g', String(user)) : groupOf(named)
  if (uid === 0 || gid === 0) throw cannot('runAs', 'games must not run as root')
  return { uid, gid, own: false }
}

function idOf(flag: '-u' | '-g', user: string): number {
  const result = spawnSync(...ownDescriptors('id', [flag, '--', user]), { env: { PATH: systemPath }, encoding: 'utf8' })
  if (result.status !== 0) throw cannot('runAs', `this machine has no user ${user}`)
  return Number(result.stdout)
}

function groupOf(name: string): number {
  const result = spawnSync(...ownDescriptors('getent', ['group', name]), {
    env: { PATH: systemPath },
    encoding: 'utf8',
  })
  const gid = Number(result.status === 0 ? result.stdout.split(':')[2] : NaN)
  if (!Number.isInteger(gid)) throw cannot('runAs', `this machine has no group ${name}`)
  return gid
}
