/** Invalid settings of the bundled server: it prints one line with the variable and the reason, without a stack trace. */
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Environment, runHost, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { workplace } from './workplace.js'

const limitMs = 400_000
const freePorts = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', PORT_RANGE: portRangeText('refusals') }

/** The line that it prints. */
async function refusal(env: Environment, args: readonly string[] = []): Promise<string> {
  const { code, stdout, stderr } = await runHost({ ...freePorts, ...env }, args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^gamekeeper: [^\n]+\n$/)
  expect(stderr).not.toContain('Error')
  return stderr.trim()
}

/** A port that is in use. */
async function busyPort(): Promise<string> {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const address = other.address()
  return String(typeof address === 'object' && address !== null ? address.port : 0)
}

describe('the bundled server rejects', () => {
  it('an unknown flag', { timeout: limitMs }, async () => {
    const { code, stdout, stderr } = await runHost({}, ['--alocation-port', '80'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe("gamekeeper: unknown option '--alocation-port'; did you mean --allocation-port?\n")
  })

  it('an invalid value for a variable', { timeout: limitMs }, async () => {
    expect(await refusal({ BACKEND: 'nomad' })).toBe(
      'gamekeeper: BACKEND must be process, docker, kubernetes or memory, but is "nomad"',
    )
  })

  it.each(['ALLOCATION_PORT', 'MANAGEMENT_PORT', 'HEALTH_PORT', 'AGENT_PORT'])(
    'a %s that is in use',
    { timeout: limitMs },
    async (variable) => {
      const { dataDir, running } = await workplace()
      const port = await busyPort()
      const output = await refusal({ DATA_DIR: dataDir, [variable]: port })
      expect(output).toContain(`port ${port} on 127.0.0.1 is in use`)
      expect(output).toContain(`choose another with ${variable}, or 0 for a free one`)
      expect(await running()).toEqual([])
    },
  )

  it.each([
    ['HOST', 'HOST'],
    ['AGENT_HOST', 'AGENT_HOST'],
  ])('a %s that is not an address of this machine', { timeout: limitMs }, async (variable) => {
    const { dataDir } = await workplace()
    expect(await refusal({ DATA_DIR: dataDir, INSECURE: '1', [variable]: '192.0.2.1' })).toBe(
      `gamekeeper: 192.0.2.1 is not an address of this machine; set ${variable}`,
    )
  })

  it('a non-loopback HOST without authentication', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const output = await refusal({ DATA_DIR: dataDir, HOST: '0.0.0.0' })
    expect(output).toContain(
      'gamekeeper: HOST=0.0.0.0 would let anyone who can reach this machine allocate game servers',
    )
    expect(output).toContain('ALLOCATE_TOKENS')
    expect(output).toContain('INSECURE=1')
  })

  it('unauthenticated and unauthorized calls when tokens are set', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const env = { BACKEND: 'memory', DATA_DIR: dataDir, HOST: '0.0.0.0', LOG_LEVEL: 'warn' }
    const host = await startHost({ ...env, READ_TOKENS: 'r'.repeat(32), MANAGE_TOKENS: 'm'.repeat(32) })
    const request = async (method: string, token?: string) => {
      const headers = token === undefined ? {} : { Authorization: `Bearer ${token.repeat(32)}` }
      const path = '/api/v1/gameserverbuilds/default/arena'
      return (await fetch(host.management + path, { method, headers })).status
    }
    expect([await request('GET'), await request('GET', 'x'), await request('GET', 'r')]).toEqual([401, 401, 200])
    expect([await request('DELETE', 'r'), await request('DELETE', 'm')]).toEqual([403, 200])
    const allocation = await fetch(`${host.allocation}/api/v1/allocate`, { method: 'POST', body: '{}' })
    expect(allocation.status).toBe(401)
    expect(host.log().map(({ message }) => message)).toContainEqual(
      expect.stringContaining('bearer tokens are sent in plain text'),
    )
    expect(await host.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  })

  it('a DATA_DIR that is not writable', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    await mkdir(dataDir)
    const file = join(dataDir, 'file')
    await writeFile(file, '')
    for (const path of [file, join(file, 'below'), '/proc/gamekeeper']) {
      const output = await refusal({ DATA_DIR: path })
      expect(output).toContain('gamekeeper: DATA_DIR: ')
      expect(output).toContain(path)
    }
  })

  it('a second server on the same DATA_DIR, without affecting the first', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const env = { ...freePorts, DATA_DIR: dataDir, SAMPLE: 'off' }
    const first = await startHost(env)
    const output = await refusal(env)
    expect(output).toContain('gamekeeper: DATA_DIR: ')
    expect(output).toContain(`in use by process ${first.process.pid}`)
    expect(await first.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  })
})

describe('the bundled server', () => {
  it('responds to --help without starting', { timeout: limitMs }, async () => {
    const help = await runHost({ BACKEND: 'nonsense' }, ['--help'])
    expect(help).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('ALLOCATION_PORT') })
  })
})
