/** Containers that read lines from their standard input, with and without a terminal. */
import { afterEach, expect, it, vi } from 'vitest'
import type { Backend, InstanceSpec, LogsOptions } from '../../../src/contracts/backend.js'
import { describeOnEngine } from './describe-on-engine.js'
import { cleanUp, containerOf, freshDirectory, linesOf, newFleetName, nextRange, open, specOf } from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const repeats = 'echo ready; while read -r line; do echo "got $$line"; done; echo ended'

const send = async (backend: Backend, { ref }: InstanceSpec, line: string) => backend.writeStdin?.(ref, `${line}\n`)

function logOf(backend: Backend, { ref }: InstanceSpec, options: LogsOptions = {}): Promise<readonly string[]> {
  if (!backend.logs) throw new Error('the backend has no logs')
  return linesOf(backend.logs(ref, options))
}

async function prints(backend: Backend, spec: InstanceSpec, expected: readonly string[]): Promise<void> {
  await vi.waitFor(async () => expect(await logOf(backend, spec)).toEqual(expected), { timeout: 60_000, interval: 100 })
}

describeOnEngine('the standard input of a container', () => {
  it('takes lines from one host after another, and never ends', async () => {
    const settings = { fleet: newFleetName(), directory: await freshDirectory(), portRange: nextRange(5) }
    const first = await open(settings)
    const spec = specOf(repeats, { container: { stdin: true } })
    await first.create(spec)
    const long = 'x'.repeat(4_090)
    for (const line of ['say hello', '', long]) await send(first, spec, line)
    await prints(first, spec, ['ready', 'got say hello', 'got ', `got ${long}`])
    await first.close()
    const second = await open(settings)
    await send(second, spec, 'stop')
    await prints(second, spec, ['ready', 'got say hello', 'got ', `got ${long}`, 'got stop'])
  })

  it('is a terminal with tty: true, whose log repeats the line and is read and followed like others', async () => {
    const backend = await open()
    const spec = specOf(`[ -t 0 ] && ${repeats}`, { container: { stdin: true, tty: true } })
    await backend.create(spec)
    const followed = logOf(backend, spec, { follow: true })
    await prints(backend, spec, ['ready'])
    await send(backend, spec, 'say hello')
    const all = ['ready', 'say hello', 'got say hello']
    await prints(backend, spec, all)
    expect(await logOf(backend, spec, { tail: 1 })).toEqual(['got say hello'])
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await followed).toEqual(all)
  })

  it('is refused without stdin: true, and when the container is paused or has ended', async () => {
    const backend = await open()
    const without = specOf('sleep 600')
    await backend.create(without)
    await expect(send(backend, without, 'stop')).rejects.toMatchObject({
      code: 'no-stdin',
      message: expect.stringContaining('its template has no stdin: true'),
    })
    const spec = specOf('read -r line', { container: { stdin: true } })
    await backend.create(spec)
    const container = await containerOf(backend.fleet, spec)
    const notRunning = { code: 'no-stdin', message: expect.stringContaining('its game is not running') }
    await container.pause()
    await expect(send(backend, spec, 'stop')).rejects.toMatchObject(notRunning)
    await container.unpause()
    await send(backend, spec, 'stop')
    await container.wait()
    await expect(send(backend, spec, 'stop')).rejects.toMatchObject(notRunning)
  })

  it('of a game that reads nothing fails in time when it is full, as unavailable', async () => {
    const backend = await open({ readTimeoutMs: 10_000 })
    const spec = specOf('exec sleep 600', { container: { stdin: true } })
    await backend.create(spec)
    const line = 'x'.repeat(4_095)
    const fill = async () => {
      for (let sent = 0; sent < 200; sent++) await send(backend, spec, line)
    }
    await expect(fill()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('send a line to container'),
    })
    expect(await backend.list()).toMatchObject([{ phase: 'running' }])
  })
})
