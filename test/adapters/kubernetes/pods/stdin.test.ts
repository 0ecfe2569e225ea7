/** Pods that read lines from their standard input, on a real cluster. */
import { describe, expect, it, vi } from 'vitest'
import type { Backend, InstanceSpec } from '../../../../src/contracts/backend.js'
import { kubectl } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespace } from '../support/own-namespace.js'
import { find, linesOf, newGroup, open, specOf } from '../support/support.js'

vi.setConfig({ maxConcurrency: 12, testTimeout: 200_000 })

const waitOptions = { timeout: 120_000, interval: 200 }
const repeats = 'echo ready; while read -r line; do echo "got $$line"; done; echo ended'

const send = async (backend: Backend, { ref }: InstanceSpec, line: string) => backend.writeStdin?.(ref, `${line}\n`)

async function runs(backend: Backend, spec: InstanceSpec): Promise<void> {
  await backend.create(spec)
  await vi.waitFor(async () => expect(await find(backend, spec)).toMatchObject({ phase: 'running' }), waitOptions)
}

describeOnCluster('the standard input of a pod', () => {
  const space = ownNamespace()
  const prints = ({ ref }: InstanceSpec, backend: Backend, expected: readonly string[]) =>
    vi.waitFor(async () => {
      if (!backend.logs) throw new Error('the backend has no logs')
      expect(await linesOf(backend.logs(ref))).toEqual(expected)
    }, waitOptions)

  describe.concurrent('of its game container', () => {
    it('takes lines from one host after another, and never ends', async () => {
      const apiGroup = newGroup()
      const first = open(space(), { apiGroup })
      const spec = specOf(space(), repeats, { container: { stdin: true } })
      await runs(first, spec)
      const long = 'x'.repeat(4_090)
      for (const line of ['say hello', '', 'y'.repeat(125), long]) await send(first, spec, line)
      const printed = ['ready', 'got say hello', 'got ', `got ${'y'.repeat(125)}`, `got ${long}`]
      await prints(spec, first, printed)
      await first.close()
      const second = open(space(), { apiGroup })
      await send(second, spec, 'stop')
      await prints(spec, second, [...printed, 'got stop'])
    })

    it('is a terminal with tty: true', async () => {
      const backend = open(space())
      const spec = specOf(space(), `[ -t 0 ] && ${repeats}`, { container: { stdin: true, tty: true } })
      await runs(backend, spec)
      await prints(spec, backend, ['ready'])
      await send(backend, spec, 'say hello')
      await prints(spec, backend, ['ready', 'say hello', 'got say hello'])
    })

    it('is refused without stdin: true, with stdinOnce: true, and when the game has ended', async () => {
      const backend = open(space())
      const without = specOf(space(), 'sleep 600')
      const once = specOf(space(), repeats, { container: { stdin: true, stdinOnce: true } })
      const ends = specOf(space(), 'read -r line', { container: { stdin: true } })
      await Promise.all([without, once, ends].map((spec) => runs(backend, spec)))
      const refusal = (why: string) => ({ code: 'no-stdin', message: expect.stringContaining(why) })
      await expect(send(backend, without, 'stop')).rejects.toMatchObject(refusal('its template has no stdin: true'))
      await expect(send(backend, once, 'stop')).rejects.toMatchObject(refusal('its template has stdinOnce: true'))
      await send(backend, ends, 'stop')
      await vi.waitFor(async () => expect(await find(backend, ends)).toMatchObject({ phase: 'exited' }), waitOptions)
      await expect(send(backend, ends, 'stop')).rejects.toMatchObject(refusal('its game is not running'))
      await kubectl('delete', 'pod', '-n', space(), '--now', without.ref.name)
      await expect(send(backend, without, 'stop')).rejects.toMatchObject({ code: 'not-found' })
    })
  })
})
