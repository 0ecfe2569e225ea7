/** The configuration and exits of containers, their ports and logs, and isolation from other containers. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { maxLineBytes } from '../../../adapters/shared/line-splitter.js'
import type { Backend, Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { describeOnEngine } from './describe-on-engine.js'
import { baseImage, docker, engineSocket } from './engine.js'
import { proxyTo } from './proxy.js'
import {
  cleanUp,
  containerOf,
  containersOf,
  find,
  freshDirectory,
  linesOf,
  newFleetName,
  nextRange,
  onCleanUp,
  open,
  specOf,
} from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const waitOptions = { timeout: 60_000, interval: 100 }

function inPhase(backend: Backend, spec: InstanceSpec, phase: Instance['phase']): Promise<Instance> {
  return vi.waitFor(async () => {
    const instance = await find(backend, spec)
    if (instance?.phase !== phase) throw new Error(`${spec.ref.name} is ${instance?.phase}`)
    return instance
  }, waitOptions)
}

async function outputOf(backend: Backend, spec: InstanceSpec): Promise<string> {
  await backend.create(spec)
  await inPhase(backend, spec, 'exited')
  return (await linesOf(backend.logs?.(spec.ref) ?? noLogs())).join('\n')
}

// eslint-disable-next-line require-yield
async function* noLogs(): AsyncGenerator<string> {
  throw new Error('the backend has no logs')
}

describeOnEngine('a container', () => {
  it('gets its SDK configuration, environment, and directories, regardless of the user it runs as', async () => {
    const backend = await open({ publicAddress: '203.0.113.7' })
    const script =
      'cat $GSDK_CONFIG_FILE; echo; id -u; echo $MODE $PORT_7777; touch /gamekeeper/GameLogs/x && echo wrote; pwd'
    const spec = specOf(`setpriv --reuid=1000 sh -c '${script}'`, {
      ports: [7777],
      container: { env: [{ name: 'MODE', value: 'duel' }], workingDir: '/usr' },
    })
    const output = await outputOf(backend, spec)
    const config: unknown = JSON.parse(output.slice(0, output.indexOf('\n}') + 2))
    const [port] = (await find(backend, spec))?.ports ?? []
    expect(config).toMatchObject({
      heartbeatEndpoint: '127.0.0.1:56001',
      sessionHostId: spec.sdk.sessionHostId,
      publicIpV4Address: '203.0.113.7',
      buildMetadata: { map: 'dust' },
      gamePorts: { port_7777: '7777' },
      gameServerConnectionInfo: {
        gamePortsConfiguration: [{ name: 'port_7777', serverListeningPort: 7777, clientConnectionPort: port?.public }],
      },
    })
    expect(output).toMatch(/\n1000\nduel 7777\nwrote\n\/usr$/)
  })

  it('has the settings given in the options and the template', async () => {
    const network = `gamekeeper-test-${newFleetName()}`
    await docker.createNetwork({ Name: network })
    onCleanUp(() => docker.getNetwork(network).remove())
    const backend = await open({
      networks: ['bridge', network],
      labels: { team: 'red' },
      capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
      log: { driver: 'local' },
    })
    const limits = { cpu: '250m', memory: '64Mi' }
    const spec = specOf('sleep 600', { ports: [7777], container: { resources: { limits } } })
    await backend.create(spec)
    const container = await (await containerOf(backend.fleet, spec)).inspect()
    expect(container.HostConfig).toMatchObject({
      NanoCpus: 250_000_000,
      Memory: 64 * 2 ** 20,
      CapDrop: ['ALL'],
      LogConfig: { Type: 'local' },
    })
    expect(container.Config.Labels).toMatchObject({ team: 'red' })
    expect(Object.keys(container.NetworkSettings.Networks).toSorted()).toEqual(['bridge', network].toSorted())
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  })

  it('that exceeds its memory limit exits with that as the reason', async () => {
    const backend = await open()
    const hungry = `exec node -e 'const all = []; for (;;) all.push(Buffer.alloc(1e6, 1))'`
    const spec = specOf(hungry, { container: { resources: { limits: { memory: '64Mi' } } } })
    await backend.create(spec)
    const exit = { exitCode: 137, reason: 'it was killed for using more memory than its limit of 64 MiB' }
    // The engine sometimes hears of the exit before it hears of the reason.
    await vi.waitFor(async () => expect(await find(backend, spec)).toMatchObject(exit), waitOptions)
  })

  // So does an engine that shuts down, before it ends itself.
  it('that exits with 0 after `docker stop` was interrupted; one that does so by itself was not', async () => {
    const backend = await open()
    const stopped = specOf('trap "exit 0" TERM; echo ready; while true; do sleep 0.1; done')
    const finished = specOf('exit 0')
    for (const spec of [stopped, finished]) await backend.create(spec)
    const output = async () => linesOf(backend.logs?.(stopped.ref) ?? noLogs())
    await vi.waitFor(async () => expect(await output()).toEqual(['ready']), waitOptions)
    await (await containerOf(backend.fleet, stopped)).stop()
    const exited = { phase: 'exited', exitCode: 0 }
    await vi.waitFor(
      async () => expect(await find(backend, stopped)).toMatchObject({ ...exited, interrupted: true }),
      waitOptions,
    )
    const instance = await inPhase(backend, finished, 'exited')
    expect(instance).toMatchObject(exited)
    expect(instance.interrupted).toBe(undefined)
  })

  it('that is paused counts as running and can be terminated', async () => {
    const backend = await open()
    const spec = specOf('sleep 600')
    await backend.create(spec)
    const changed: Instance[] = []
    backend.watch(listener({ changed: (instance) => changed.push(instance) }))
    const container = await containerOf(backend.fleet, spec)
    await container.pause()
    expect(await find(backend, spec)).toMatchObject({ phase: 'running', reason: 'the container is paused' })
    await vi.waitFor(() => expect(changed.at(-1)).toMatchObject({ reason: 'the container is paused' }), waitOptions)
    await backend.destroy(spec.ref, spec.uid, { graceMs: 30_000 })
    expect(await containersOf(backend.fleet)).toEqual([])
  })

  it('that is removed externally is reported as gone, and can be created again', async () => {
    const backend = await open()
    const spec = specOf('sleep 600', { ports: [7777] })
    await backend.create(spec)
    const gone: string[] = []
    backend.watch(listener({ gone: (_, uid) => gone.push(uid) }))
    await backend.list()
    await (await containerOf(backend.fleet, spec)).remove({ force: true })
    await vi.waitFor(() => expect(gone).toEqual([spec.uid]), waitOptions)
    expect(await backend.list()).toEqual([])
    expect(await backend.create(spec)).toMatchObject({ phase: 'running' })
  })

  it('that is renamed externally still belongs to its server, and is removed with it', async () => {
    const backend = await open()
    const spec = specOf('echo hello; sleep 600', { ports: [7777] })
    const running = await backend.create(spec)
    await (await containerOf(backend.fleet, spec)).rename({ name: `${backend.fleet}-renamed` })
    expect(await backend.list()).toEqual([running])
    await vi.waitFor(
      async () => expect(await linesOf(backend.logs?.(spec.ref) ?? noLogs())).toEqual(['hello']),
      waitOptions,
    )
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await containersOf(backend.fleet)).toEqual([])
  })

  it('whose creation was interrupted is recreated by create, or removed by list', async () => {
    const fleet = newFleetName()
    const directory = await freshDirectory()
    const first = await open({ fleet, directory })
    const [wanted, unwanted] = [specOf('sleep 600', { ports: [7777] }), specOf('sleep 600', { ports: [7777] })] as const
    for (const spec of [wanted, unwanted]) await first.create(spec)
    for (const spec of [wanted, unwanted]) {
      // As left behind by a host that was killed between create and start.
      const container = await (await containerOf(fleet, spec)).inspect()
      const { Image, Labels } = container.Config
      await docker.getContainer(container.Id).remove({ force: true })
      await docker.createContainer({ name: container.Name.slice(1), Image, Labels })
    }
    await first.close()
    const second = await open({ fleet, directory })
    expect(await second.create(wanted)).toMatchObject({ uid: wanted.uid, phase: 'running' })
    expect((await second.list()).map(({ uid }) => uid)).toEqual([wanted.uid])
    expect(await containersOf(fleet)).toHaveLength(1)
  })

  it('leaves no anonymous volumes behind', async () => {
    const image = `gamekeeper-test-volume:${newFleetName()}`
    const maker = await docker.createContainer({ Image: baseImage, Cmd: ['true'] })
    await maker.commit({ repo: image.split(':')[0], tag: image.split(':')[1], changes: 'VOLUME /saves' })
    await maker.remove()
    onCleanUp(() => docker.getImage(image).remove())
    const backend = await open()
    const spec = specOf('sleep 600', { image })
    await backend.create(spec)
    const { Mounts } = await (await containerOf(backend.fleet, spec)).inspect()
    expect(Mounts).toHaveLength(1)
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    await expect(docker.getVolume(Mounts[0]?.Name ?? '').inspect()).rejects.toThrow('no such volume')
  })

  it('that the engine rejects is listed as exited with the reason until it is destroyed', async () => {
    const backend = await open({ capabilities: { add: ['NO_SUCH_CAPABILITY'] } })
    const spec = specOf('sleep 600')
    const refused = await backend.create(spec)
    expect(refused).toMatchObject({
      phase: 'exited',
      exitCode: 125,
      reason: expect.stringMatching(/NO_SUCH_CAPABILITY/),
    })
    expect(await backend.list()).toEqual([refused])
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await backend.list()).toEqual([])
    expect(await containersOf(backend.fleet)).toEqual([])
  })

  it('whose network is missing fails as unavailable and leaves no container', async () => {
    const backend = await open({ networks: ['no-such-network'] })
    await expect(backend.create(specOf('sleep 600'))).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('no-such-network'),
    })
    expect(await containersOf(backend.fleet)).toEqual([])
  })
})

describeOnEngine('public ports', () => {
  it('held by another program or container are skipped', async () => {
    const portRange = nextRange(4)
    const program = createServer()
    program.listen(portRange.first, '0.0.0.0')
    await once(program, 'listening')
    onCleanUp(() => void program.close())
    const foreign = await open({ portRange: { first: portRange.first + 1, last: portRange.first + 1 } })
    await foreign.create(specOf('sleep 600', { ports: [7777] }))
    const backend = await open({ portRange })
    const spec = specOf('sleep 600', { ports: [7777, 7778] })
    const instance = await backend.create(spec)
    expect(instance.ports.map((port) => port.public)).toEqual([portRange.first + 2, portRange.first + 3])
    await expect(backend.create(specOf('sleep 600', { ports: [7777] }))).rejects.toMatchObject({
      code: 'ports-exhausted',
      message: expect.stringContaining('2 held by other servers of this fleet, 2 by other programs'),
    })
    expect(await containersOf(backend.fleet)).toHaveLength(1)
  })

  it('held by another program, even only for UDP, are avoided for a minute', async () => {
    const portRange = nextRange(2)
    const program = createSocket('udp4').bind(portRange.first, '0.0.0.0')
    await once(program, 'listening')
    onCleanUp(() => void program.close())
    const proxy = await proxyTo(engineSocket)
    onCleanUp(() => proxy.close())
    const backend = await open({ portRange }, proxy.docker)
    const ports: number[] = []
    for (let servers = 0; servers < 3; servers++) {
      const spec = specOf('sleep 600', { ports: [7777] })
      const instance = await backend.create(spec)
      ports.push(...instance.ports.map((port) => port.public))
      await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    }
    expect(ports).toEqual([portRange.last, portRange.last, portRange.last])
    const created = proxy.requests().filter((request) => request.includes('/containers/create'))
    expect(created).toHaveLength(ports.length + 1)
  })
})

describeOnEngine('two fleets on one engine', () => {
  it('never see each other’s containers, and never touch containers of others', async () => {
    const [one, other] = [await open(), await open()]
    const spec = specOf('sleep 600')
    const [changed, gone]: [Instance[], unknown[]] = [[], []]
    other.watch(listener({ changed: (it) => changed.push(it), gone: (it) => gone.push(it) }))
    await other.list()
    // Both create the same server.
    await Promise.all([one.create(spec), other.create(spec)])
    const foreign = await docker.createContainer({
      Image: baseImage,
      Cmd: ['sleep', '600'],
      Labels: { 'gamekeeper.uid': spec.uid },
    })
    onCleanUp(() => foreign.remove({ force: true }))
    await foreign.start()
    expect(await one.list()).toHaveLength(1)
    expect(await other.list()).toHaveLength(1)
    await vi.waitFor(() => expect(changed).not.toEqual([]), waitOptions)
    await one.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await one.list()).toEqual([])
    expect(await find(other, spec)).toMatchObject({ phase: 'running' })
    expect((await foreign.inspect()).State.Running).toBe(true)
    // Its own server goes on.
    expect(changed.filter(({ phase }) => phase === 'exited')).toEqual([])
    expect(gone).toEqual([])
  })

  it('reject a create with conflict when a foreign container has the name, and leave that container alone', async () => {
    const backend = await open()
    const spec = specOf('sleep 600')
    const name = `gamekeeper-${backend.fleet}-default.${spec.ref.name}`
    const foreign = await docker.createContainer({ Image: baseImage, Cmd: ['sleep', '600'], name })
    onCleanUp(() => foreign.remove({ force: true }))
    await expect(backend.create(spec)).rejects.toMatchObject({ code: 'conflict' })
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    expect(await backend.list()).toEqual([])
    expect((await foreign.inspect()).State.Status).toBe('created')
  })

  it('have separate generated names, kept in their directories', async () => {
    const [a, b] = [await freshDirectory(), await freshDirectory()]
    const portRange = nextRange(20)
    const at = (directory: string) => {
      const backend = dockerBackend({ docker, directory, portRange })
      onCleanUp(() => backend.close())
      return backend
    }
    const spec = specOf('sleep 600', { ports: [7777] })
    const first = at(a)
    onCleanUp(() => at(a).destroy(spec.ref, spec.uid, { graceMs: 0 }))
    await first.create(spec)
    expect(await at(b).list()).toEqual([])
    expect(await at(a).list()).toMatchObject([{ uid: spec.uid }])
  })
})

describeOnEngine('the log of a container', () => {
  it('can be read completely, from its last lines, or followed', async () => {
    const backend = await open()
    const long = 'x'.repeat(40_000)
    const script = `node -e 'console.log("x".repeat(40000))'; echo two >&2; sleep 0.3; echo three; until [ -e /go ]; do sleep 0.1; done; echo late; exit 3`
    const spec = specOf(script)
    await backend.create(spec)
    const read = (options: object) => linesOf(backend.logs?.(spec.ref, options) ?? noLogs())
    await vi.waitFor(
      async () => expect((await read({})).toSorted()).toEqual(['two', 'three', long].toSorted()),
      waitOptions,
    )
    expect(await read({ tail: 1 })).toEqual(['three'])
    expect(await read({ tail: 0 })).toEqual([])
    const origins = (await read({ origin: true })).map((line) => line.slice(0, 50).split(' '))
    expect(origins.every(([at = '']) => Date.parse(at) > 0)).toBe(true)
    expect(origins.find(([, , text]) => text === 'two')?.[1]).toBe('stderr')
    expect(origins.find(([, , text]) => text === 'three')?.[1]).toBe('stdout')
    const stop = new AbortController()
    const cut = read({ follow: true, signal: stop.signal })
    const followed = read({ follow: true, tail: 0 })
    stop.abort()
    expect(await cut).toSatisfy((lines: readonly string[]) => lines.length <= 3)
    const exec = await (await containerOf(backend.fleet, spec)).exec({ Cmd: ['touch', '/go'] })
    await exec.start({})
    expect(await followed).toEqual(['late'])
    expect((await read({})).at(-1)).toBe('late')
    await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
    await expect(read({})).rejects.toMatchObject({ code: 'not-found' })
  })

  it('has at most as many last lines as asked for, also if the last one has no newline', async () => {
    const backend = await open()
    const spec = specOf(`printf 'one\ntwo\nthree'`)
    await backend.create(spec)
    const read = (options: object) => linesOf(backend.logs?.(spec.ref, options) ?? noLogs())
    await vi.waitFor(async () => expect(await read({})).toEqual(['one', 'two', 'three']), waitOptions)
    expect(await read({ tail: 0 })).toEqual([])
    expect(await read({ tail: 1 })).toEqual(['three'])
    expect(await read({ tail: 2 })).toEqual(['two', 'three'])
  })

  it('is yielded in pieces of a bounded length if it is one very long line', async () => {
    const backend = await open()
    const bytes = 3 * 1024 * 1024
    const spec = specOf(`node -e 'process.stdout.write("x".repeat(${bytes}) + String.fromCharCode(10) + "end")'`)
    await backend.create(spec)
    const read = (options: object) => linesOf(backend.logs?.(spec.ref, options) ?? noLogs())
    await vi.waitFor(async () => expect((await read({ tail: 1 })).at(-1)).toBe('end'), waitOptions)
    for (const options of [{}, { follow: true }]) {
      const lines = await read(options)
      expect(lines.at(-1)).toBe('end')
      expect(lines.slice(0, -1).join('')).toBe('x'.repeat(bytes))
      expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(maxLineBytes)
    }
  })

  it('is unsupported when the log driver keeps no logs', async () => {
    const backend = await open({ log: { driver: 'none' } })
    const spec = specOf('echo one; sleep 600')
    await backend.create(spec)
    await expect(linesOf(backend.logs?.(spec.ref) ?? noLogs())).rejects.toMatchObject({ code: 'unsupported' })
  })
})

function listener(handlers: {
  changed?: (instance: Instance) => void
  gone?: (ref: InstanceSpec['ref'], uid: string) => void
  resync?: () => void
}) {
  return {
    changed: () => {},
    gone: () => {},
    resync: () => {},
    heartbeat: () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1000 }) as const,
    ...handlers,
  }
}
