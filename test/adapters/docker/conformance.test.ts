/** The Docker backend passes the conformance suite on a real engine. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dockerBackend } from 'gamekeeper/docker'
import { backendConformance, type ConformanceProgram } from 'gamekeeper/testing'
import { expect, it } from 'vitest'
import type { Backend } from '../../../src/contracts/backend.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { describeOnEngine } from './describe-on-engine.js'
import { baseImage, docker } from './engine.js'
import { containersOf, newFleetName, nextRange } from './support.js'

describeOnEngine('the Docker backend', () => {
  const sh = (script: string) => ['sh', '-c', script]
  const commands: Record<ConformanceProgram, readonly string[]> = {
    runs: ['sleep', '600'],
    'exits-0': sh('exit 0'),
    'exits-3': sh('exit 3'),
    'exits-5-late': sh('sleep 1; exit 5'),
    'ignores-terminate': sh(`trap 'echo signalled' TERM; echo up; while :; do sleep 0.1; done`),
    'no-such-command': ['/no/such/command'],
    'prints-stdin': ['cat'],
  }
  for (const init of [true, false]) {
    let backend: Backend
    const logged = async (ref: Ref, text: string) => {
      for await (const line of backend.logs?.(ref, { follow: true }) ?? []) if (line === text) return
      throw new Error(`${ref.name} ended without writing ${text}`)
    }
    const cases = backendConformance({
      graceMs: 2_000,
      timeoutMs: 60_000,
      template: (program) => ({
        // Without an init process the program is process 1, for which SIGTERM has no default action.
        spec: {
          containers: [
            {
              name: 'game',
              image: baseImage,
              stdin: program === 'prints-stdin',
              command: program === 'runs' && !init ? sh(`trap 'exit 0' TERM; sleep 600 & wait`) : commands[program],
            },
          ],
        },
      }),
      programUp: ({ ref }) => logged(ref, 'up'),
      programSignalled: ({ ref }) => logged(ref, 'signalled'),
      async open({ publicPorts = 20 }) {
        const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-conformance-'))
        const fleet = newFleetName()
        const portRange = nextRange(publicPorts)
        const open = () => (backend = dockerBackend({ docker, directory, fleet, portRange, init }))
        return {
          backend: open(),
          reopen: async () => open(),
          async cleanup() {
            expect(await containersOf(fleet)).toEqual([])
            await rm(directory, { recursive: true })
          },
        }
      },
    })
    for (const one of cases) {
      // The init process affects only termination and exit codes.
      if (!init && !/exit|end|kill|command|destroy/.test(one.name)) continue
      it(init ? one.name : `${one.name}, without an init process`, { timeout: 240_000 }, () => one.run())
    }
  }
})
