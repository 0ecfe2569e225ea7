/** The bundled server with BACKEND=docker, without an engine: `docker` is a script of this test. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { createFleet, type Fleet, type GameServerBuild } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { serverLog } from '../../src/server/log.js'
import { engineOf, ensureSample } from '../../src/server/sample.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Scene {
  readonly fleet: Fleet
  readonly logged: readonly string[]
  /** The arguments and process id of `docker`, once it runs. */
  invocation(): Promise<{ readonly args: string; readonly pid: number }>
  make(signal?: AbortSignal, imageTimeoutMs?: number): Promise<GameServerBuild | undefined>
}

/** An empty fleet, and a `docker` command that runs this script. */
async function scene(script: string): Promise<Scene> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-docker-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const invocationFile = join(directory, 'invocation')
  await writeFile(join(directory, 'docker'), `#!/bin/sh\nprintf '%s\\n' "$$" "$*" > ${invocationFile}\n${script}\n`)
  await chmod(join(directory, 'docker'), 0o755)
  vi.stubEnv('PATH', `${directory}:${process.env['PATH']}`)
  vi.stubEnv('DOCKER_HOST', 'tcp://192.0.2.1:2375')
  onTestFinished(() => void vi.unstubAllEnvs())
  const fleet = await createFleet({ backend: memoryBackend() })
  onTestFinished(() => fleet.close())
  const logged: string[] = []
  const log = serverLog({ level: 'info', json: true, write: (line) => logged.push(String(JSON.parse(line).message)) })
  return {
    fleet,
    logged,
    invocation: () =>
      vi.waitFor(async () => {
        const [pid = '', args = '', end] = (await readFile(invocationFile, 'utf8')).split('\n')
        if (end === undefined) throw new Error('docker has not been called')
        return { args, pid: Number(pid) }
      }, 300_000),
    make: (signal = new AbortController().signal, imageTimeoutMs = 60_000) =>
      ensureSample({ fleet, backend: 'docker', log, signal, imageTimeoutMs }),
  }
}

describe("the sample's image", () => {
  it("is built first, on the fleet's engine, regardless of the Docker context", async () => {
    const { fleet, logged, invocation, make } = await scene('exit 0')
    const build = await make()
    expect(JSON.stringify(build?.spec.template)).toContain('"image":"gamekeeper-example","imagePullPolicy":"Never"')
    expect(await fleet.builds.list()).toHaveLength(1)
    expect(logged).toEqual(["building the sample's image"])
    expect((await invocation()).args).toBe(
      '-H tcp://192.0.2.1:2375 build -f examples/game-server/Dockerfile -t gamekeeper-example .',
    )
  })

  it('may fail to build; the server then runs without a sample, and logs how to build the image', async () => {
    const { fleet, logged, make } = await scene('echo one >&2; echo two >&2; exit 1')
    expect(await make()).toBeUndefined()
    expect(await fleet.builds.list()).toEqual([])
    expect(logged).toHaveLength(2)
    expect(logged[1]).toContain("building the sample's image failed, so there is no sample; build it in ")
    expect(logged[1]).toContain('docker -H tcp://192.0.2.1:2375 build ')
  })

  it('is abandoned after a timeout, leaving no process behind', async () => {
    const { fleet, logged, invocation, make } = await scene('sleep 600')
    expect(await make(undefined, 5_000)).toBeUndefined()
    expect(await fleet.builds.list()).toEqual([])
    expect(logged[1]).toContain("the sample's image was not built within 5 s, so there is no sample; ")
    await untilGone((await invocation()).pid)
  })

  it('is abandoned on shutdown, even if the command ignores SIGTERM', async () => {
    const { fleet, logged, invocation, make } = await scene(`trap '' TERM\nwhile :; do sleep 1; done`)
    const leaving = new AbortController()
    const made = make(leaving.signal)
    const { pid } = await invocation()
    leaving.abort()
    expect(await made).toBeUndefined()
    expect(await fleet.builds.list()).toEqual([])
    expect(logged).toEqual(["building the sample's image", "build of the sample's image cancelled"])
    await untilGone(pid)
  })

  it('is not used if a build was created in the meantime', async () => {
    const other = await scene('exit 0')
    const sample = await other.make()
    if (!sample) throw new Error('no sample was made')
    const { fleet, invocation, make } = await scene('while ! [ -e "$0.go" ]; do sleep 0.1; done')
    const made = make()
    await invocation()
    await fleet.builds.create({ metadata: { name: 'own' }, spec: { ...sample.spec, buildID: 'own' } })
    await writeFile(join((process.env['PATH'] ?? '').split(':')[0] ?? '', 'docker.go'), '')
    expect(await made).toBeUndefined()
    expect((await fleet.builds.list()).map(({ metadata }) => metadata.name)).toEqual(['own'])
  })

  it.each([
    ['tcp://10.0.0.4:2376', 'tcp://10.0.0.4:2376'],
    ['10.0.0.4:2375', 'tcp://10.0.0.4:2375'],
    ['http://10.0.0.4:2375', 'tcp://10.0.0.4:2375'],
    ['ssh://me@there', 'ssh://me@there'],
    ['unix:///run/user/1000/docker.sock', 'unix:///run/user/1000/docker.sock'],
  ])('with DOCKER_HOST=%s is built on %s', async (host, engine) => {
    expect(await engineOf({ DOCKER_HOST: host })).toBe(engine)
  })

  it('is built on this machine when DOCKER_HOST is not set', async () => {
    for (const env of [{}, { DOCKER_HOST: '' }, { DOCKER_HOST: 'unix://' }, { DOCKER_CONTEXT: 'other' }]) {
      expect(await engineOf(env)).toMatch(/^(unix|npipe):\/\/\/.*docker/)
    }
  })
})

it('a server without the dockerode package says in one line what to install', { timeout: 300_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-docker-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const missing = `import { Module } from 'node:module'
    const { _resolveFilename: resolve, _resolveLookupPaths: paths } = Module
    Module._resolveLookupPaths = function (name, ...more) {
      return name === 'dockerode' ? [] : paths.call(this, name, ...more)
    }
    Module._resolveFilename = function (name, ...more) {
      if (name !== 'dockerode') return resolve.call(this, name, ...more)
      throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' })
    }`
  const hook = `data:text/javascript,${encodeURIComponent(missing)}`
  const child = spawn(process.execPath, ['--import', hook, 'dist/src/cli/main.js', 'serve'], {
    cwd: root,
    env: { PATH: process.env['PATH'], BACKEND: 'docker', DATA_DIR: join(directory, 'data') },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => (output += part))
  }
  await once(child, 'close')
  expect(output).toBe(
    'gamekeeper: BACKEND=docker needs the package dockerode, which is not installed: npm install dockerode@5\n',
  )
  expect(child.exitCode).toBe(1)
})

/** Waits until no process of the group is left. */
async function untilGone(pid: number): Promise<void> {
  await vi.waitFor(() => {
    expect(() => process.kill(-pid, 0)).toThrow('ESRCH')
  }, 300_000)
}
