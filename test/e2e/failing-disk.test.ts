/**
 * The file system of a fleet's directory turns read-only while a match runs, as the kernel does after an error of the disk: the match goes
 * on, the host says what is wrong and stays alive, and its records are whole.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { fileStore } from '../../src/stores/file.js'
import { testAsRoot } from '../adapters/process/as-root.js'
import { allocate, buildOf, createBuild, getBuild, portOf, say } from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const run = (program: string, ...args: readonly string[]) => execFileSync(program, args, { encoding: 'utf8' }).trim()

/** An ext4 file system of its own. */
async function ownDisk() {
  const path = await mkdtemp(join(tmpdir(), 'gamekeeper-disk-'))
  const image = `${path}.img`
  await writeFile(image, '')
  await truncate(image, 64 * 1_024 * 1_024)
  run('mkfs.ext4', '-q', image)
  run('mount', '-o', 'loop,errors=remount-ro', image, path)
  const device = basename(run('findmnt', '-n', '-o', 'SOURCE', path))
  // Runs after the clean-up of the workplace, which finds the game servers in the directory.
  onTestFinished(async () => {
    run('umount', path)
    await Promise.all([rm(path, { recursive: true }), rm(image)])
  })
  return { path, turnReadOnly: () => writeFile(`/sys/fs/ext4/${device}/trigger_fs_error`, '1') }
}

testAsRoot(
  'a host on a file system that turns read-only keeps its match, says that it is not ready, and loses no record',
  async () => {
    const disk = await ownDisk()
    const { dataDir } = await workplace(join('..', basename(disk.path), 'data'))
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('failing-disk'), SAMPLE: 'off' }
    const buildID = randomUUID()
    const session = { buildID, sessionID: randomUUID() }
    const host = await startHost(env)
    await createBuild(host, buildOf({ name: 'arena', buildID, standingBy: 2, max: 6 }))
    const { body } = await allocate(host, session, 60)
    const port = portOf(body.Ports)
    await until('the match runs', async () => (await say(port, 'who')).startsWith('session '))
    await until('two stand by', async () => (await getBuild(host, 'arena')).status.currentStandingBy === 2)

    await disk.turnReadOnly()
    await until('the host says that it is not ready', async () => {
      const response = await fetch(`${host.management}/readyz`)
      const { store } = (await response.json()) as { readonly store: boolean }
      return response.status === 503 && !store
    })
    // Each of these writes is refused. A server for which one was, stands by no more until its record has been written again.
    const statuses: number[] = []
    for (let n = 0; n < 10; n++) {
      statuses.push((await allocate(host, { buildID, sessionID: randomUUID() })).status)
    }
    expect([statuses[0], ...new Set(statuses)]).toEqual([503, 503, 429])
    // A session that has its server needs no write.
    expect((await allocate(host, session)).body).toEqual(body)
    expect(await say(port, 'who')).toMatch(/^session /)
    expect(await host.exit('SIGTERM')).toMatchObject({ signal: null })
    expect(await say(port, 'who')).toMatch(/^session /)

    const copy = await mkdtemp(join(tmpdir(), 'gamekeeper-copy-'))
    onTestFinished(() => rm(copy, { recursive: true }))
    await cp(join(dataDir, 'store'), copy, { recursive: true, filter: (path) => !path.endsWith('.sock') })
    const store = await fileStore({ directory: copy, logger: false })
    onTestFinished(() => store.close())
    expect(await store.check?.()).toMatchObject({ isWhole: true, problems: [] })
    const servers = (await store.servers.list()).map(({ record }) => record)
    expect(servers.filter(({ sessions: [one] }) => one?.id === session.sessionID)).toHaveLength(1)
  },
  120_000,
)
