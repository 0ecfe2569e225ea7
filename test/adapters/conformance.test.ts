/** The memory and process backends pass the conformance suite. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from 'gamekeeper'
import { memoryBackend, type MemoryBackend, type ServerScript } from 'gamekeeper/memory'
import { processBackend } from 'gamekeeper/process'
import { backendConformance, type BackendConformanceCase, type ConformanceProgram } from 'gamekeeper/testing'
import { afterAll, describe, expect, it, vi } from 'vitest'

describe('the memory backend', () => {
  const scripts: Record<ConformanceProgram, ServerScript> = {
    runs: {},
    'exits-0': { exitsWith: 0 },
    'exits-3': { exitsWith: 3 },
    'exits-5-late': { exitsWith: 5, exitsAfterMs: 100 },
    'ignores-terminate': { ignoresTerminate: true },
    'no-such-command': { cannotStart: 'no such command: arena' },
    'prints-stdin': {},
  }
  let opened: MemoryBackend | undefined
  const withoutLogs = 'keeps no logs'
  const cases = backendConformance({
    graceMs: 500,
    timeoutMs: 60_000,
    inapplicable: {
      'stdin: lines reach the game in their order, before and after a host restart': withoutLogs,
      'logs: what a game has printed can be read after it was destroyed, if that was asked for': withoutLogs,
      ...commandCases('has no programs'),
      'usage: is measured while a game runs, where the system measures it': 'its games use nothing',
    },
    programSignalled: ({ ref }) => vi.waitFor(() => expect(opened?.server(ref).isSignalled).toBe(true), 60_000),
    template: (program) => ({ metadata: { program }, spec: { containers: [{ name: 'game' }] } }),
    async open({ publicPorts = 100 }) {
      const backend = memoryBackend({
        clock: systemClock,
        portRange: { first: 20_000, last: 20_000 + publicPorts - 1 },
        script: ({ template }) => {
          for (const [program, script] of Object.entries(scripts)) {
            if (JSON.stringify(template['metadata']).includes(`"${program}"`)) return script
          }
          return {}
        },
      })
      opened = backend
      return { backend, reopen: async () => backend, cleanup: async () => {} }
    },
  })
  for (const one of cases) it(one.name, { timeout: 240_000 }, () => one.run())
})

describe('the process backend', () => {
  const markers = mkdtempSync(join(tmpdir(), 'gamekeeper-conformance-'))
  afterAll(() => rmSync(markers, { recursive: true }))

  const sh = (script: string) => ['sh', '-c', script]
  const commands: Record<ConformanceProgram, readonly string[]> = {
    runs: ['sleep', '600'],
    'exits-0': sh('exit 0'),
    'exits-3': sh('exit 3'),
    'exits-5-late': sh('sleep 1; exit 5'),
    'ignores-terminate': sh(
      `cd "${markers}"; trap ': >"$PF_GAMESERVER_NAME.signalled"' TERM; : >"$PF_GAMESERVER_NAME"; while :; do sleep 0.1; done`,
    ),
    'no-such-command': ['/no/such/command'],
    'prints-stdin': ['cat'],
  }
  const cases = backendConformance({
    graceMs: 1_000,
    timeoutMs: 60_000,
    template: (program) => ({
      spec: { containers: [{ name: 'game', command: commands[program], stdin: program === 'prints-stdin' }] },
    }),
    programUp: ({ ref }) => vi.waitFor(() => expect(existsSync(join(markers, ref.name))).toBe(true), 60_000),
    programSignalled: ({ ref }) =>
      vi.waitFor(() => expect(existsSync(join(markers, `${ref.name}.signalled`))).toBe(true), 60_000),
    async open({ publicPorts = 100 }) {
      const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-conformance-'))
      const portRange = await freeRange(publicPorts)
      const open = () => processBackend({ directory, portRange, pollIntervalMs: 50 })
      return { backend: open(), reopen: async () => open(), cleanup: () => rm(directory, { recursive: true }) }
    },
  })
  for (const one of cases) it(one.name, { timeout: 240_000 }, () => one.run())
})

/** A range of free ports, a different one for each call. */
async function freeRange(size: number): Promise<{ readonly first: number; readonly last: number }> {
  for (;;) {
    const first = nextFirst
    nextFirst += size
    const ports = Array.from({ length: size }, (_, i) => first + i)
    const free = await Promise.all(ports.map(isFree))
    if (free.every(Boolean)) return { first, last: first + size - 1 }
  }
}

let nextFirst = 21_000

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
      .once('error', () => resolve(false))
      .listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

function commandCases(why: string): Partial<Record<BackendConformanceCase, string>> {
  return {
    'exec: a command has its arguments as they are, the environment of its game, and an exit code': why,
    'exec: a command reads lines, and what it writes is there for the next one, also after a host restart': why,
    'exec: of what a command prints, the end is kept, and one that prints without an end is given up': why,
    'exec: settles after its signal, with aborted or once the command has ended': why,
  }
}
