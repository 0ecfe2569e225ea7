/** Secrets of the bundled server, in variables and in files. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { takeSecrets, withSecretFiles } from '../../src/server/secrets.js'
import { testAsRoot } from '../adapters/process/as-root.js'
import { contentOf } from '../adapters/process/support.js'
import { type Host, startHost } from '../e2e/host.js'
import { until } from '../e2e/until.js'

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'gamekeeper-secrets-'))
  onTestFinished(() => rm(path, { recursive: true, force: true, maxRetries: 3 }))
  return path
}

const [first, second] = ['a'.repeat(32), 'b'.repeat(32)]

async function statusOf({ management }: Host, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(`${management}/api/v1/gameservers`, { headers })).status
}

it('tokens are read from a file, and read again when it changes; unusable content changes nothing', async () => {
  const path = join(await folder(), 'tokens')
  await writeFile(path, `${first}\n`)
  const host = await startHost({
    BACKEND: 'memory',
    SAMPLE: 'off',
    DATA_DIR: await folder(),
    MANAGE_TOKENS_FILE: path,
  })
  expect([await statusOf(host, first), await statusOf(host, second)]).toEqual([200, 401])

  await writeFile(path, `ops:${first}\n${second}\n`)
  await until('both tokens are accepted', async () => (await statusOf(host, second)) === 200)
  expect(await statusOf(host, first)).toBe(200)

  await writeFile(path, 'short\n')
  await until('the error is logged', () => host.log().some(({ message }) => message.includes('tokens are unusable')))
  expect(await statusOf(host, second)).toBe(200)

  await writeFile(path, second)
  await until('the first token is rejected', async () => (await statusOf(host, first)) === 401)
  expect(host.stdout() + host.stderr()).not.toMatch(/a{32}|b{32}/)
})

testAsRoot('the server says which isolation holds; no game of its sample can read what belongs to it', async () => {
  const dataDir = await folder()
  const env = { BACKEND: 'process', DATA_DIR: dataDir, ISOLATION: 'user', MANAGE_TOKENS: first, SAMPLE: 'on' }
  const host = await startHost(env)
  onTestFinished(async () => {
    await fetch(`${host.management}/api/v1/drain`, { method: 'POST', headers: { Authorization: `Bearer ${first}` } })
    await host.exit('SIGTERM')
  })
  expect(host.log().find(({ message }) => message === 'ready')).toMatchObject({
    isolation: 'user',
    limits: { memory: expect.any(String), pids: expect.any(String) },
  })
  const users = await until('the sample runs', () => {
    const found = readdirSync(join(dataDir, 'instances')).flatMap((name) => {
      const record = contentOf(join(dataDir, 'instances', name, 'instance.json'))
      const uid: unknown = record === undefined ? undefined : JSON.parse(record).uidOfGame
      return typeof uid === 'number' ? [uid] : []
    })
    return found.length > 0 && found
  })
  expect(users.every((uid) => uid >= 2_000_000_000)).toBe(true)
  const script = `cat /proc/${host.process.pid}/environ ${dataDir}/store/data.mdb; ls ${dataDir}`
  const asGame = spawnSync('sh', ['-c', script], { uid: users[0], gid: users[0], encoding: 'utf8' })
  expect(asGame.stdout).toBe('')
  expect(asGame.stderr.match(/Permission denied/g)).toHaveLength(3)
})

it('secrets are removed from the environment of the process, and kept for the configuration', () => {
  const env = { MANAGE_TOKENS: first, WEBHOOK_SECRET: second, HOST: '::1' }
  expect(takeSecrets(env)).toEqual({ MANAGE_TOKENS: first, WEBHOOK_SECRET: second, HOST: '::1' })
  expect(env).toEqual({ HOST: '::1' })
})

it('a file that cannot be used is an error that names its variable', async () => {
  const place = await folder()
  const empty = join(place, 'empty')
  await writeFile(empty, '\n')
  const problemOf = (env: Record<string, string>) => () => withSecretFiles(env)
  expect(problemOf({ READ_TOKENS_FILE: join(place, 'none') })).toThrow(
    /^READ_TOKENS_FILE names .*cannot be read: ENOENT/,
  )
  expect(problemOf({ READ_TOKENS_FILE: place })).toThrow(/it is not a regular file/)
  expect(problemOf({ WEBHOOK_SECRET_FILE: empty })).toThrow(/^WEBHOOK_SECRET_FILE names .*which is empty/)
  expect(problemOf({ READ_TOKENS: first, READ_TOKENS_FILE: empty })).toThrow(
    'READ_TOKENS and READ_TOKENS_FILE must not both be set',
  )
})
