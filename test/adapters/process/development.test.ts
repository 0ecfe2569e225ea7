/** `development: true`: real games end with their host, however it ends, and their output appears on its console. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { root } from '../../package/sources.js'
import { cleanUp, freshDirectory, onCleanUp, until } from './support.js'

const limitMs = 400_000

afterEach(cleanUp, limitMs)

/** Ignores its termination signal, as a game does that hangs. */
const stubborn = `process.on('SIGTERM', () => {}); console.log('game', process.pid); setInterval(() => {}, 1_000)`
const polite = `process.on('SIGTERM', () => { console.log('bye'); process.exit(0) }); console.log('game', process.pid); setInterval(() => {}, 1_000)`

interface Host {
  readonly process: ChildProcess
  /** Its stdout so far. */
  readonly printed: () => string
  /** The id of its game's process. */
  game(): Promise<number>
}

/** Runs a fleet with one server. A line on stdin closes the fleet. */
function startHost(directory: string, game: string, portRange: string): Host {
  const script = `
    import { createFleet } from './dist/src/index.js'
    import { processBackend } from './dist/adapters/process/index.js'
    const [directory, game, portRange] = process.argv.slice(1)
    const backend = processBackend({ directory, portRange, development: true })
    const fleet = await createFleet({ backend, agent: { port: 0 } })
    console.log('builds', (await fleet.builds.list()).length)
    const run = { command: [process.execPath, '-e', game], ports: [{ port: 7777 }] }
    await fleet.builds.apply({ metadata: { name: 'arena' }, spec: { buildID: 'a', standingBy: 1, max: 1, run } })
    process.stdin.once('data', async () => {
      await fleet.close()
      console.log('closed')
      process.stdin.destroy()
    })`
  const args = ['--input-type=module', '-e', script, '--', directory, game, portRange]
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] })
  onCleanUp(() => void child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const pid = () => Number(/^\[arena-\w{5}\] game (\d+)$/m.exec(printed)?.[1] ?? 0)
  return {
    process: child,
    printed: () => printed,
    async game() {
      await until('the game has printed its process id', () => pid() > 0)
      return pid()
    },
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe('with development: true', () => {
  it.each(['SIGINT', 'SIGKILL'] as const)(
    'games end when the host is ended by %s',
    async (signal) => {
      for (const game of [polite, stubborn]) {
        const host = startHost(freshDirectory(), game, '30400-30419')
        const pid = await host.game()
        host.process.kill(signal)
        await once(host.process, 'exit')
        await until('the game has ended', () => !isRunning(pid))
      }
    },
    limitMs,
  )

  it(
    'close ends the games after a second at most, and shows what they print until then',
    async () => {
      for (const [game, last] of [
        [polite, /^\[arena-\w{5}\] bye$/m],
        [stubborn, /^closed$/m],
      ] as const) {
        const directory = freshDirectory()
        const host = startHost(directory, game, '30420-30439')
        const pid = await host.game()
        const exited = once(host.process, 'exit')
        host.process.stdin?.write('\n')
        await until('the host has closed its fleet', () => host.printed().includes('closed'))
        expect(readdirSync(join(directory, 'dev/instances'))).toEqual([])
        await until('the game has ended', () => !isRunning(pid))
        expect(host.printed()).toMatch(last)
        expect(await exited).toEqual([0, null])
      }
    },
    limitMs,
  )

  it(
    'each start begins without builds, apart from the records of other fleets in the directory',
    async () => {
      const directory = freshDirectory()
      const first = startHost(directory, polite, '30440-30459')
      await first.game()
      first.process.kill('SIGKILL')
      await once(first.process, 'exit')
      const second = startHost(directory, polite, '30440-30459')
      await second.game()
      expect(second.printed()).toContain('builds 0\n')
      expect(existsSync(join(directory, 'store'))).toBe(false)
    },
    limitMs,
  )

  it(
    'a second host with the same directory is refused, and leaves the games of the first alone',
    async () => {
      const directory = freshDirectory()
      const first = startHost(directory, polite, '30460-30479')
      const pid = await first.game()
      const second = spawn(process.execPath, first.process.spawnargs.slice(1), { cwd: root, stdio: 'pipe' })
      const errors = text(second.stderr)
      const [code] = await once(second, 'exit')
      expect([code, await errors]).toEqual([1, expect.stringContaining('directory-in-use')])
      expect(isRunning(pid)).toBe(true)
    },
    limitMs,
  )
})
