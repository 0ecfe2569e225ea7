/**
 * Shows that the holder of a directory is alive: a listening Unix socket in the directory. The kernel closes it when the
 * process ends, and a connection attempt reaches it from every container and PID namespace that shares the directory. Touches
 * the directory and one socket.
 */
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import { codeOf } from '../platform/files.js'
import { currentProcess, isAlive, type ProcessIdentity } from '../platform/process-identity.js'
import { isObject } from '../rules/validation/problem.js'
import type { LmdbEnvironment } from './lmdb-environment.js'

/** Names of the sockets that this process holds. */
const heldHere = new Set<string>()

/** A longer path is silently truncated by the system. */
const maxPathBytes = 100

export class DirectoryLock {
  /** Name of the socket in the directory. */
  readonly socket: string
  readonly #server: Server
  readonly #directory: FileHandle | undefined

  private constructor(socket: string, server: Server, directory: FileHandle | undefined) {
    this.socket = socket
    this.#server = server
    this.#directory = directory
  }

  /** Rejects with the system's error if the platform or the file system has no Unix sockets. */
  static async open(directory: string): Promise<DirectoryLock> {
    const socket = `holder-${Buffer.from(systemClock.randomBytes(8)).toString('hex')}.sock`
    const reached = await reach(directory)
    // Nothing is ever said over the connection: that it can be opened is enough.
    const server = createServer((connection) => connection.destroy())
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(socketPath(reached.path, socket), resolve)
      })
    } catch (error) {
      await reached.handle?.close()
      throw error
    }
    server.unref()
    heldHere.add(socket)
    return new DirectoryLock(socket, server, reached.handle)
  }

  /** Also removes the socket. */
  async close(): Promise<void> {
    heldHere.delete(this.socket)
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
    await this.#directory?.close()
  }
}

/** Names of all sockets in the directory, of live and dead holders. */
async function socketNames(directory: string): Promise<readonly string[]> {
  return (await readdir(directory)).filter((name) => /^holder-[0-9a-f]+\.sock$/.test(name))
}

type LockState = 'held' | 'free' | 'missing'

/** `missing`: the directory contains no socket of this name. */
async function lockState(directory: string, socket: string): Promise<LockState> {
  const reached = await reach(directory)
  try {
    return await new Promise<LockState>((resolve) => {
      const connection = connect(socketPath(reached.path, socket))
      connection.once('connect', () => {
        connection.destroy()
        resolve('held')
      })
      connection.once('error', (error) => {
        const code = codeOf(error)
        if (code === 'ENOENT') return resolve('missing')
        // Any other error, such as a full queue of connections, does not mean that the holder has ended.
        resolve(code === 'ECONNREFUSED' ? 'free' : 'held')
      })
    })
  } finally {
    await reached.handle?.close()
  }
}

/** Says who has it open, and how an app whose modules load more than once keeps one fleet. */
function ownProcess(pid: number): string {
  return `this process (${pid}); if its modules load more than once, as with hot reload, keep the fleet with fleetOnce`
}

/** Throws `directory-in-use` if a live process has the directory open. `own` is the socket of the caller. */
export async function throwIfHeld(directory: string, own?: string): Promise<void> {
  for (const socket of await socketNames(directory)) {
    if (socket === own || (await lockState(directory, socket)) !== 'held') continue
    const who = isHeldHere(socket) ? ownProcess(process.pid) : 'a running host'
    throw new FleetError('directory-in-use', `the directory ${directory} is in use by ${who}`)
  }
}

function isHeldHere(socket: string): boolean {
  return heldHere.has(socket)
}

/** Removes the socket that a dead holder left. */
async function removeSocket(directory: string, socket: string): Promise<void> {
  await rm(join(directory, socket), { force: true })
}

/** On Linux, an open directory has a short path, so that the length of its own does not matter. */
async function reach(directory: string): Promise<{ readonly path: string; readonly handle?: FileHandle }> {
  if (process.platform !== 'linux') return { path: directory }
  const handle = await open(directory, 'r')
  return { path: `/proc/self/fd/${handle.fd}`, handle }
}

function socketPath(directory: string, socket: string): string {
  const path = join(directory, socket)
  if (Buffer.byteLength(path) > maxPathBytes) throw new Error(`the path ${path} is too long for a Unix socket`)
  return path
}

// Makes one process the only writer of a directory. The claim is a record in the database; the socket of `DirectoryLock`
// tells whether its holder is alive.

interface Holder extends ProcessIdentity {
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
  environment: LmdbEnvironment,
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
export async function checkUnclaimed({ root, about }: LmdbEnvironment, directory: string): Promise<void> {
  const text = root.transactionSync(() => {
    throwIfNewer(about, directory)
    return about.get('holder')
  })
  const holder = readHolder(text)
  if (holder && (await isHolding(directory, holder))) throw inUse(directory, holder)
}

/** Allows another process to claim the directory. */
export function release({ root, about }: LmdbEnvironment): void {
  root.transactionSync(() => about.removeSync('holder'))
}

/** Returns false if another process has claimed the directory since `expected` was read. */
function replaceHolder(
  { root, about }: LmdbEnvironment,
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

function throwIfNewer(about: LmdbEnvironment['about'], directory: string): void {
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
