/**
 * Makes one process the only writer of a directory. The claim is a record in the database; the socket of `DirectoryLock`
 * tells whether its holder is alive.
 */
import { hostname } from 'node:os'
import { FleetError } from '../contracts/errors.js'
import { currentProcess, isAlive, type ProcessIdentity } from '../platform/process-identity.js'
import { isObject } from '../rules/validation/problem.js'
import { isHeldHere, lockState, removeSocket, ownProcess } from './directory-lock.js'
import type { Environment } from './environment.js'

export interface Holder extends ProcessIdentity {
  readonly hostname?: string
  /** Absent if the holder could not create a socket. */
  readonly socket?: string
}

/** The data format. Increase it for changes that this code would misinterpret. */
export const dataFormat = 1

/**
 * Of several concurrent claims one succeeds. Returns the previous holder if it ended without releasing the directory. Rejects with
 * `directory-in-use`, or with `directory-unusable` if the data has a newer format.
 */
export async function claim(
  environment: Environment,
  directory: string,
  socket: string | undefined,
): Promise<Holder | undefined> {
  const { root, about } = environment
  const own: Holder = { ...currentProcess(), hostname: hostname(), ...(socket !== undefined && { socket }) }
  for (;;) {
    // Only write transactions: a read fails if a live process of another PID namespace has the same pid.
    const text = root.transactionSync(() => about.get('holder'))
    const holder = readHolder(text)
    if (holder && (await isHolding(directory, holder))) throw inUse(directory, holder)
    if (!replaceHolder(environment, directory, text, own)) continue
    if (holder?.socket !== undefined) await removeSocket(directory, holder.socket)
    return holder
  }
}

/** Rejects as `claim` does, and changes nothing. */
export async function checkUnclaimed({ root, about }: Environment, directory: string): Promise<void> {
  const text = root.transactionSync(() => {
    throwIfNewer(about, directory)
    return about.get('holder')
  })
  const holder = readHolder(text)
  if (holder && (await isHolding(directory, holder))) throw inUse(directory, holder)
}

/** Allows another process to claim the directory. */
export function release({ root, about }: Environment): void {
  root.transactionSync(() => about.removeSync('holder'))
}

/** Returns false if another process has claimed the directory since `expected` was read. */
function replaceHolder(
  { root, about }: Environment,
  directory: string,
  expected: string | undefined,
  own: Holder,
): boolean {
  return root.transactionSync(() => {
    throwIfNewer(about, directory)
    if (about.get('holder') !== expected) return false
    about.putSync('holder', JSON.stringify(own))
    return true
  })
}

function throwIfNewer(about: Environment['about'], directory: string): void {
  const format = Number(about.get('format') ?? dataFormat)
  if (format <= dataFormat) return
  const message = `the directory ${directory} holds data of format ${format}, but this version of gamekeeper supports formats up to ${dataFormat}: use the version that wrote it or a later one`
  throw new FleetError('directory-unusable', message)
}

async function isHolding(directory: string, holder: Holder): Promise<boolean> {
  const state = holder.socket === undefined ? 'missing' : await lockState(directory, holder.socket)
  // Without the socket, only a process of the same PID namespace can be found.
  return state === 'missing' ? isAlive(holder) : state === 'held'
}

function inUse(directory: string, { pid, hostname: host, socket }: Holder): FleetError {
  const isOwn = socket === undefined ? pid === process.pid : isHeldHere(socket)
  const elsewhere = host === undefined || host === hostname() ? '' : ` of ${host}`
  const who = isOwn ? ownProcess(pid) : `process ${pid}${elsewhere}`
  return new FleetError('directory-in-use', `the directory ${directory} is in use by ${who}`)
}

function readHolder(text: string | undefined): Holder | undefined {
  if (text === undefined) return undefined
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return undefined
  const { pid, startedAt, hostname: host, socket } = value
  if (typeof pid !== 'number' || typeof startedAt !== 'string') return undefined
  return {
    pid,
    startedAt,
    ...(typeof host === 'string' && { hostname: host }),
    ...(typeof socket === 'string' && { socket }),
  }
}
