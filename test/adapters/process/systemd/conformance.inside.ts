/** The process backend with `isolation: 'systemd'` passes the conformance suite. */
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { processBackend } from '../../../../adapters/process/index.js'
import { backendConformance, type ConformanceProgram } from '../../../../src/testing/index.js'

const sh = (script: string) => ['/bin/sh', '-c', script]
const commands: Record<ConformanceProgram, readonly string[]> = {
  runs: ['sleep', '600'],
  'exits-0': sh('exit 0'),
  'exits-3': sh('exit 3'),
  'exits-5-late': sh('sleep 1; exit 5'),
  'ignores-terminate': sh(`trap ': >$HOME/signalled' TERM; : >$HOME/up; while :; do sleep 0.1; done`),
  'no-such-command': ['/no/such/command'],
  'prints-stdin': ['cat'],
}

let current = ''
let nextPort = 23_000
const fileOf = ({ name }: { readonly name: string }, file: string) =>
  join(current, 'instances', `default.${name}`, 'home', file)
const appears = (path: string) => vi.waitFor(() => expect(existsSync(path)).toBe(true), 60_000)

const cases = backendConformance({
  graceMs: 1_000,
  timeoutMs: 60_000,
  template: (program) => ({
    spec: { containers: [{ name: 'game', command: commands[program], stdin: program === 'prints-stdin' }] },
  }),
  programUp: ({ ref }) => appears(fileOf(ref, 'up')),
  programSignalled: ({ ref }) => appears(fileOf(ref, 'signalled')),
  async open({ publicPorts = 100 }) {
    const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-conformance-'))
    current = directory
    const portRange = { first: nextPort, last: nextPort + publicPorts - 1 }
    nextPort += publicPorts
    const open = () => processBackend({ directory, portRange, pollIntervalMs: 50, isolation: 'systemd' })
    return { backend: open(), reopen: async () => open(), cleanup: () => rm(directory, { recursive: true }) }
  },
})

for (const one of cases) test(one.name, () => one.run())
