/** A host restarts on a full disk: it adopts its servers, keeps every match, and goes on when there is space again. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { testAsRoot } from '../adapters/process/as-root.js'
import { allocate, buildOf, createBuild, getBuild, listServers, portOf, say } from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

/** Writes until no byte fits. */
async function fill(directory: string): Promise<void> {
  for (const size of [1_048_576, 4_096, 1]) {
    for (let n = 0; ; n++) {
      const path = join(directory, `filler-${size}-${n}`)
      try {
        await writeFile(path, Buffer.alloc(size))
      } catch {
        await rm(path, { force: true })
        break
      }
    }
  }
}

async function restartedOnFullDisk(): Promise<void> {
  const disk = await mkdtemp(join(tmpdir(), 'gamekeeper-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', disk])
  // Runs after the clean-up of the workplace, which finds the game servers in the directory.
  onTestFinished(async () => {
    execFileSync('umount', [disk])
    await rmdir(disk)
  })
  const { dataDir } = await workplace(join('..', basename(disk), 'data'))
  const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('full-disk'), SAMPLE: 'off' }
  const buildID = randomUUID()
  const session = { buildID, sessionID: randomUUID() }
  const first = await startHost(env)
  await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: 1, max: 2 }))
  const { body } = await allocate(first, session, 60)
  const port = portOf(body.Ports)
  await until('the match runs', async () => (await say(port, 'who')).startsWith('session '))
  await until('another stands by', async () => (await getBuild(first, 'arena')).status.currentStandingBy === 1)
  const { agent } = first
  await first.exit('SIGKILL')
  await fill(disk)
  // Its port is taken, so the new one has to be stored, too.
  const other = createServer().listen(Number(new URL(agent).port), '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())

  const host = await startHost(env)
  // The first host may have been killed before it had stored that the other server stood by.
  const idle = expect.toBeOneOf(['Initializing', 'StandingBy'])
  expect((await listServers(host)).map(({ status }) => status.state).toSorted()).toEqual(['Active', idle])
  expect((await allocate(host, session)).body).toEqual(body)
  expect(await say(port, 'who')).toMatch(/^session /)
  expect(host.log().map(({ message }) => message)).toContain(
    'the agent port cannot be stored; if it changes, heartbeats of running game servers are lost',
  )
}

testAsRoot('a host that restarts on a full disk keeps its match and its servers', restartedOnFullDisk, 120_000)
