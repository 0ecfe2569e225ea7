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
  /** Absent if the holder could not create a socket, and in claims of older versions. */
  readonly socket?: string
}

export interface Claim {
  /** The previous holder, if it ended without releasing the directory. */
  readonly deadHolder: Holder | undefined
  /** In data of format 1, at least as high as the highest version ever assigned to a record. */
  readonly lastReserved: number
}

/** The newest data format that this version supports. Increase it for changes that older code would misinterpret. */
const newestFormat = 2

/**
 * Of several concurrent claims one succeeds. The claim of a dead process is ignored. Rejects with `directory-in-use`, or with
 * `directory-unusable` if the data has a newer format.
 */
export async function claim(environment: Environment, directory: string, socket: string | undefined): Promise<Claim> {
  const { root, about } = environment
  const own: Holder = { ...currentProcess(), hostname: hostname(), ...(socket !== undefined && { socket }) }
  for (;;) {
    // Only write transactions: a read fails if a live process of another PID namespace has the same pid.
    const text = root.transactionSync(() => about.get('holder'))
    const holder = readHolder(text)
    if (holder && (await isHolding(directory, holder))) throw inUse(directory, holder)
    const lastReserved = replaceHolder(environment, directory, text, own)
    if (lastReserved === undefined) continue
    if (holder?.socket !== undefined) await removeSocket(directory, holder.socket)
    return { deadHolder: holder, lastReserved }
  }
}

/** Rejects as `claim` does, and changes nothing. Returns what is `lastReserved` in a claim. */
export async function checkUnclaimed({ root, about }: Environment, directory: string): Promise<number> {
  const [text, format, versions] = root.transactionSync(() => [
    about.get('holder'),
    formatIn(about),
    Number(about.get('versions') ?? 0),
  ])
  const holder = readHolder(text)
  if (holder && (await isHolding(directory, holder))) throw inUse(directory, holder)
  if (format > newestFormat) throw newerFormat(directory, format)
  return versions
}

/** Allows another process to claim the directory. */
export function release({ root, about }: Environment): void {
  root.transactionSync(() => about.removeSync('holder'))
}

/** Returns the last reserved version, or undefined if another process has claimed the directory since `expected` was read. */
function replaceHolder(
  { root, about }: Environment,
  directory: string,
  expected: string | undefined,
  own: Holder,
): number | undefined {
  return root.transactionSync(() => {
    const format = formatIn(about)
    if (format > newestFormat) throw newerFormat(directory, format)
    if (about.get('holder') !== expected) return undefined
    about.putSync('holder', JSON.stringify(own))
    return Number(about.get('versions') ?? 0)
  })
}

function formatIn(about: Environment['about']): number {
  return Number(about.get('format') ?? newestFormat)
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

function newerFormat(directory: string, format: number): FleetError {
  const message = `the directory ${directory} holds data of format ${format}, but this version of gamekeeper supports formats up to ${newestFormat}: use the version that wrote it or a later one`
  return new FleetError('directory-unusable', message)
}

function readHolder(text: string | undefined): Holder | undefined {
  if (text === undefined) return undefined
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return undefined
  const { pid, startedAt, hostname: host, socket } = value
  if (typeof pid !== 'number' || typeof startedAt !== 'string') return undefined
  return {
    ...{ pid, startedAt },
    ...(typeof host === 'string' && { hostname: host }),
    ...(typeof socket === 'string' && { socket }),
  }
}
