/** What a container may do by default: enough for a game that runs as root, and little more. */
import { afterEach, expect, it, vi } from 'vitest'
import { containerCapabilities, keptCapabilities } from '../../../adapters/docker/container-config.js'
import type { DockerBackendOptions } from '../../../adapters/docker/index.js'
import { describeOnEngine } from './describe-on-engine.js'
import { cleanUp, linesOf, open, specOf } from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

/** Bits of `/proc/self/status`, from linux/capability.h. */
const bits: Readonly<Record<string, number>> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_BIND_SERVICE: 10,
  NET_RAW: 13,
  SYS_NICE: 23,
  MKNOD: 27,
}

async function outputOf(script: string, options: DockerBackendOptions = {}): Promise<string> {
  const backend = await open(options)
  const spec = specOf(script)
  await backend.create(spec)
  const lines = backend.logs?.(spec.ref, { follow: true })
  return lines === undefined ? '' : (await linesOf(lines)).join('\n')
}

/** Runs as root, as in many images: opens a low port, changes owners, switches to another user and signals it. */
const rootGame = `const { chownSync, writeFileSync } = require('fs')
writeFileSync('/etc/game', 'x'); chownSync('/etc/game', 1000, 1000); writeFileSync('/etc/game', 'y')
const child = require('child_process').spawn('sleep', ['600'], { uid: 1000, gid: 1000 })
child.on('exit', (_, signal) => console.log('child ended by', signal))
require('net').createServer().listen(80, '0.0.0.0', function () { this.close(); child.kill(); console.log('listening') })`

describeOnEngine('a container', () => {
  it('has no-new-privileges, few capabilities and a limit on processes', async () => {
    const text = await outputOf(
      `grep -E '^(NoNewPrivs|CapEff|CapBnd):' /proc/self/status; node -p 'process.getuid()'; mknod /null c 1 3 || true`,
    )
    expect(text).toMatch(/^NoNewPrivs:\t1$/m)
    const expected = keptCapabilities.reduce((sum, name) => sum + 2 ** (bits[name] ?? NaN), 0)
    for (const set of ['CapEff', 'CapBnd']) {
      expect(parseInt(new RegExp(`^${set}:\\t([0-9a-f]+)$`, 'm').exec(text)?.[1] ?? '', 16)).toBe(expected)
    }
    expect(text).toMatch(/^0$/m)
    expect(text).toMatch(/mknod.*Operation not permitted/)
  })

  it('may run as root, open a low port, own files, and switch to another user', async () => {
    const text = await outputOf(`node -e "${rootGame.replaceAll('\n', ';')}"`)
    expect(text).toContain('listening')
    expect(text).toContain('child ended by SIGTERM')
  })

  it('cannot start more processes than pidsLimit allows', async () => {
    const fork = `node -e "
      const { spawn } = require('child_process'); let failed = 0
      const all = []
      for (let i = 0; i < 60; i++) all.push(spawn('sleep', ['600']).on('error', () => failed++))
      setImmediate(() => all.forEach((child) => child.kill()))
      process.on('exit', () => console.log(failed > 0 ? 'refused' : 'all started'))"`
    expect(await outputOf(fork, { pidsLimit: 40 })).toContain('refused')
    expect(await outputOf(fork)).toContain('all started')
  })

  it('has the capabilities that the options add', async () => {
    const show = `grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status`
    const added = await outputOf(show, { capabilities: { add: ['SYS_NICE'], drop: ['ALL'] }, noNewPrivileges: false })
    expect(parseInt(/CapEff:\t(\w+)/.exec(added)?.[1] ?? '', 16)).toBe(2 ** (bits['SYS_NICE'] ?? NaN))
    expect(added).toMatch(/NoNewPrivs:\t0/)
  })
})

it.each([
  [
    { add: [], drop: [] },
    { CapAdd: keptCapabilities, CapDrop: ['ALL'] },
  ],
  [
    { add: ['cap_net_raw'], drop: ['Kill'] },
    { CapAdd: [...without('KILL'), 'NET_RAW'], CapDrop: ['ALL'] },
  ],
  [
    { add: ['SYS_NICE'], drop: ['ALL'] },
    { CapAdd: ['SYS_NICE'], CapDrop: ['ALL'] },
  ],
  [
    { add: ['KILL'], drop: ['KILL'] },
    { CapAdd: [...without('KILL'), 'KILL'], CapDrop: ['ALL'] },
  ],
  [
    { add: ['ALL'], drop: ['SYS_ADMIN'] },
    { CapAdd: ['ALL'], CapDrop: ['SYS_ADMIN'] },
  ],
])('capabilities %j become %j', (options, config) => {
  expect(containerCapabilities(options)).toEqual(config)
})

function without(name: string): readonly string[] {
  return keptCapabilities.filter((kept) => kept !== name)
}
