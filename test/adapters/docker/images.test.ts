/** Images are pulled once, with progress and the registry's errors; servers stay Pending during the pull. */
import { afterEach, expect, it, vi } from 'vitest'
import { createFleet, type FleetEvent, memoryStore } from 'gamekeeper'
import { describeOnEngine } from './describe-on-engine.js'
import { baseImage, docker } from './engine.js'
import { type Registry, startRegistry } from './registry.js'
import { cleanUp, onCleanUp, open, specOf } from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const waitOptions = { timeout: 60_000, interval: 50 }

async function registryOfThisTest(): Promise<Registry> {
  const registry = await startRegistry()
  onCleanUp(async () => {
    registry.slow = false
    await registry.close()
    // The image may not have been pulled by this test.
    await docker
      .getImage(registry.image)
      .remove({ force: true })
      .catch(() => {})
  })
  return registry
}

const buildOf = ({ build, template }: ReturnType<typeof specOf>) => ({ build, template })

describeOnEngine('an image', () => {
  it('is pulled once for several servers, and reports progress', async () => {
    const registry = await registryOfThisTest()
    registry.slow = true
    const backend = await open()
    const messages: string[] = []
    const specs = Array.from({ length: 5 }, () => specOf('true', { image: registry.image }))
    const prepared = backend.prepare?.(buildOf(specOf('true', { image: registry.image })), {
      onProgress: (message) => messages.push(message),
    })
    const created = Promise.all(specs.map((spec) => backend.create(spec)))
    await vi.waitFor(() => expect(messages.at(-1)).toMatch(/^pulling image \S+: \d+ % of 1\.\d MB$/), waitOptions)
    registry.slow = false
    await prepared
    // The image has no shell, so its containers exit; it is enough that they started.
    expect((await created).map(({ phase }) => phase)).not.toContain('pending')
    expect(registry.layersServed()).toBe(1)
  })

  it('that is present is not pulled again unless the policy is Always', async () => {
    const registry = await registryOfThisTest()
    const [backend, always, never] = [
      await open(),
      await open({ pullPolicy: 'Always' }),
      await open({ pullPolicy: 'Never' }),
    ]
    const build = buildOf(specOf('true', { image: registry.image }))
    await expect(never.prepare?.(build)).rejects.toMatchObject({
      code: 'unavailable',
      message: `the Docker engine has no image ${registry.image}, and the pull policy is Never: build or load it there`,
    })
    await backend.prepare?.(build)
    registry.refusal = { status: 403, message: 'arena is for sale again' }
    await backend.prepare?.(build)
    await never.prepare?.(build)
    await expect(always.prepare?.(build)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/^cannot pull image .*arena is for sale again/),
    })
  })

  it('is pulled with the credentials of its registry', async () => {
    const registry = await registryOfThisTest()
    registry.password = { username: 'amie', password: 's3cret' }
    const build = buildOf(specOf('true', { image: registry.image }))
    const without = await open()
    await expect(without.prepare?.(build)).rejects.toMatchObject({ code: 'unavailable' })
    const name = registry.image.split('/')[0] ?? ''
    const backend = await open({ registryAuth: { [name]: registry.password } })
    await backend.prepare?.(build)
    expect(registry.layersServed()).toBe(1)
  })

  it('whose pull makes no progress fails, and is pulled again by the next call', async () => {
    const registry = await registryOfThisTest()
    registry.slow = true
    const backend = await open({ pullIdleTimeoutMs: 10_000 })
    const build = buildOf(specOf('true', { image: registry.image }))
    await expect(backend.prepare?.(build)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('no progress for 10 s'),
    })
    registry.slow = false
    await backend.prepare?.(build)
  })
})

describeOnEngine('a fleet whose image is missing', () => {
  it('keeps its servers Pending during the pull, and shows its progress and the registry’s error', async () => {
    const registry = await registryOfThisTest()
    const backend = await open()
    const fleet = await createFleet({
      backend,
      store: memoryStore(),
      agent: { port: 0 },
      // Short timeouts that would terminate the servers if they applied during the pull.
      limits: {
        firstHeartbeatMs: 500,
        silenceMs: 2_000,
        backoffInitialMs: 200,
        backoffMaxMs: 400,
        callTimeoutMs: 10_000,
      },
    })
    onCleanUp(() => fleet.close())
    const events: FleetEvent[] = []
    fleet.on('*', (event) => events.push(event))
    registry.refusal = { status: 404, message: 'arena is not for sale' }
    const containers = [{ name: 'game', image: registry.image, command: ['sh'] }]
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: { buildID: 'arena', standingBy: 3, max: 3, portsToExpose: [], template: { spec: { containers } } },
    })
    await vi.waitFor(async () => {
      const { conditions } = (await fleet.builds.get('arena')).status
      expect(conditions).toMatchObject([
        { type: 'CreateBlocked', reason: 'unavailable', message: expect.stringContaining('arena is not for sale') },
      ])
    }, waitOptions)
    registry.refusal = undefined
    registry.slow = true
    const servers = await vi.waitFor(async () => {
      const all = await fleet.servers.list()
      expect(all.map(({ status }) => status.message)).toEqual(
        Array.from({ length: 3 }, () => expect.stringMatching(/ % of /)),
      )
      return all
    }, waitOptions)
    // Longer than each of the timeouts above.
    const since = performance.now()
    await vi.waitFor(() => expect(performance.now() - since).toBeGreaterThan(11_000), waitOptions)
    // The pull goes on.
    const same = servers.map(({ status, ...server }) => ({
      ...server,
      status: { ...status, message: expect.stringMatching(/ % of /) },
    }))
    expect(await fleet.servers.list()).toMatchObject(same)
    expect(events.filter(({ type }) => type === 'ServerEnding')).toEqual([])
    registry.slow = false
    await vi.waitFor(
      () => expect(events).toContainEqual(expect.objectContaining({ type: 'BuildPreparing', status: 'done' })),
      waitOptions,
    )
    await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('ServerEnding'), waitOptions)
    expect(registry.layersServed()).toBe(1)
    const progress = events.flatMap((event) => (event.type === 'BuildPreparing' ? [event.status] : []))
    expect(new Set(progress)).toEqual(new Set(['working', 'failed', 'done']))
    await fleet.builds.delete('arena')
  })

  it('pulls the image before the first server is needed', async () => {
    const registry = await registryOfThisTest()
    const fleet = await createFleet({ backend: await open(), store: memoryStore(), agent: { port: 0 } })
    onCleanUp(() => fleet.close())
    const template = { spec: { containers: [{ name: 'game', image: registry.image, command: ['sh'] }] } }
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: { buildID: 'arena', standingBy: 0, max: 3, portsToExpose: [], template },
    })
    await vi.waitFor(() => expect(registry.layersServed()).toBe(1), waitOptions)
    expect(await fleet.servers.list()).toEqual([])
  })
})

describeOnEngine('a build that Docker does not support', () => {
  it('is rejected by create and update, naming the field', async () => {
    const fleet = await createFleet({ backend: await open(), store: memoryStore(), agent: { port: 0 } })
    onCleanUp(() => fleet.close())
    const create = (container: object) =>
      fleet.builds.create({
        metadata: { name: 'arena' },
        spec: {
          ...{ buildID: 'arena', standingBy: 0, max: 1, portsToExpose: [] },
          template: { spec: { containers: [{ name: 'game', image: baseImage, ...container }] } },
        },
      })
    await expect(create({ workingDir: 'game' })).rejects.toMatchObject({ code: 'invalid' })
    await expect(create({ resources: { limits: { memory: '1Mi' } } })).rejects.toThrow(
      'limits.memory must be at least 6Mi',
    )
    await create({})
    await expect(
      fleet.builds.update('arena', { template: { spec: { containers: [{ name: 'game', image: 'No' }] } } }),
    ).rejects.toThrow('image must be')
  })
})
