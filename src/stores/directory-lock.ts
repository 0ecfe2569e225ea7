/**
 * Shows that the holder of a directory is alive: a listening Unix socket in the directory. The kernel closes it when the
 * process ends, and a connection attempt reaches it from every container and PID namespace that shares the directory. Touches
 * the directory and one socket.
 */
import { open, readdir, rm, type FileHandle } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { systemClock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import { codeOf } from '../platform/error-code.js'

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

export type LockState = 'held' | 'free' | 'missing'

/** `missing`: the directory contains no socket of this name. */
export async function lockState(directory: string, socket: string): Promise<LockState> {
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
export function ownProcess(pid: number): string {
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

export function isHeldHere(socket: string): boolean {
  return heldHere.has(socket)
}

/** Removes the socket that a dead holder left. */
export async function removeSocket(directory: string, socket: string): Promise<void> {
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
