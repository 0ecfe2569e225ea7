/** Games that run as other users: what they cannot reach, and that they are managed like others. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect } from 'vitest'
import { processBackend, type ProcessBackendOptions } from '../../../adapters/process/index.js'
import { fileStore } from '../../../src/stores/file.js'
import { testAsRoot } from './as-root.js'
import { homeOf, outputOf, recordIn, shellGame } from './shell-games.js'
import { cleanUp, contentOf, exited, freshDirectory, numberIn, onlyInstance, open, runs, until } from './support.js'

afterEach(cleanUp)

const isolated = { isolation: 'user' } as const
const firstID = 2_000_000_000

/** The option or directory that the error names. */
function errorOf(options: ProcessBackendOptions): unknown {
  try {
    processBackend(options)
    return 'no error'
  } catch (error) {
    return error
  }
}

testAsRoot('a game cannot read the environment of the host, the store, or the files of other servers', async () => {
  const directory = freshDirectory()
  const store = await fileStore({ directory: join(directory, 'store') })
  const backend = open(directory, isolated)
  await backend.create(shellGame('exec sleep 600', { name: 'other' }))
  const other = homeOf(directory, 'other')
  const places = [
    `/proc/${process.pid}/environ`,
    `/proc/${process.pid}/cmdline`,
    `/proc/1/cmdline`,
    join(directory, 'store', 'data.mdb'),
    join(other, 'gsdkConfig.json'),
    join(other, 'instance.json'),
    join(directory, 'logs', 'default.other.log'),
    join(homeOf(directory), 'instance.json'),
    '/etc/shadow',
  ]
  const own = join(homeOf(directory), 'instance.json')
  for (const place of places.filter((one) => one !== own)) expect(readFileSync(place).length >= 0).toBe(true)
  const read = places.map((place) => `cat ${place} >/dev/null 2>&1 && echo readable ${place};`).join(' ')
  const lists = [directory, join(directory, 'instances'), other, join(other, 'GameLogs')]
  const list = lists.map((place) => `ls ${place} >/dev/null 2>&1 && echo listed ${place};`).join(' ')
  const write = `for f in ${homeOf(directory)} ${other}/GameLogs; do (echo x >$f/new) 2>/dev/null && echo wrote $f; done;`
  const { pid } = await until('the process is recorded', () => recordIn(directory, 'other').process)
  const signal = `kill -0 ${pid} 2>/dev/null && echo signalled;`
  const output = await outputOf(
    backend,
    shellGame(
      `${read} ${list} ${write} ${signal} cat $GSDK_CONFIG_FILE >/dev/null && echo own; echo done; exec sleep 600`,
    ),
  )
  expect(output).toBe('own\ndone')
  await store.close()
})

testAsRoot('a game has a user of its own, no privileges, its own folders, and its limits', async () => {
  const directory = freshDirectory()
  const limits = { memoryBytes: 512 * 2 ** 20, tasks: 50, openFiles: 200 }
  const backend = open(directory, { ...isolated, limits })
  const script = `id -u; id -g; id -G; grep -E '^(NoNewPrivs|CapEff|CapBnd|CapInh)' /proc/self/status
    for f in $HOME $TMPDIR $PF_SERVER_LOG_DIRECTORY; do echo x >$f/file && echo wrote; done
    grep -c heartbeatEndpoint $GSDK_CONFIG_FILE; echo again >>/dev/stdout; ulimit -n; ulimit -d
    (for i in $(seq 60); do sleep 600 & done) 2>&1 | grep -qi fork && echo limited
    echo "[$USER]" "$ODD"; echo done; exec sleep 600`
  const output = await outputOf(backend, shellGame(script, { env: { ODD: "a 'b' $$(X)" } }))
  const uid = recordIn(directory).uidOfGame
  expect(uid).toBeGreaterThanOrEqual(firstID)
  expect(output).toMatch(new RegExp(`^${uid}\n${uid}\n${uid}\n`))
  expect(output).toMatch(/NoNewPrivs:\t1/)
  for (const set of ['CapEff', 'CapBnd', 'CapInh']) expect(output).toMatch(new RegExp(`${set}:\t0+$`, 'm'))
  expect(output.match(/^wrote$/gm)).toHaveLength(3)
  expect(output).toMatch(/^again\n200\n(524288|unlimited)\nlimited\n\[\] a 'b' \$\(X\)\ndone$/m)
  await backend.create(shellGame('exec sleep 600', { name: 'other' }))
  expect(recordIn(directory, 'other').uidOfGame).not.toBe(uid)
  expect(statSync(join(homeOf(directory), 'GameLogs')).mode & 0o777).toBe(0o700)
  expect(statSync(join(homeOf(directory), 'GameLogs')).uid).toBe(uid)
})

testAsRoot('a template’s variables do not reach the programs that run as root', async () => {
  const directory = freshDirectory()
  const evil = join(directory, 'evil')
  const seen = join(directory, 'seen')
  mkdirSync(evil)
  for (const name of ['unshare', 'mount', 'prlimit', 'setpriv', 'env']) {
    writeFileSync(join(evil, name), `#!/bin/sh\nid -u >>${seen}\n`, { mode: 0o755 })
  }
  const env = { PATH: `${evil}:${process.env['PATH']}`, 'my.setting': 'odd', LD_PRELOAD: '' }
  const script = `export PATH=/usr/bin:/bin; tr '\\0' '\\n' </proc/$$/environ | grep -E '^(PATH|my.setting|LD_PRELOAD|_[0-9a-f]+_[0-9]+)='; echo done; exec sleep 600`
  const output = await outputOf(open(directory, isolated), shellGame(script, { env }))
  expect(output.split('\n').toSorted()).toEqual(
    ['LD_PRELOAD=', `PATH=${env.PATH}`, 'done', 'my.setting=odd'].toSorted(),
  )
  expect(contentOf(seen)).toBeUndefined()
})

testAsRoot('an isolated game survives its host, is adopted, and is ended with all processes of its user', async () => {
  const directory = freshDirectory()
  const pids = join(directory, 'pids')
  mkdirSync(pids)
  chmodSync(pids, 0o777)
  const first = open(directory, isolated)
  const spec = shellGame(
    `setsid env -i /bin/sh -c 'echo $$ >${pids}/stray; exec sleep 600' & echo $$ >${pids}/game; exec sleep 600`,
    { ports: [7777] },
  )
  await first.create(spec)
  const [game, stray] = [await numberIn(join(pids, 'game')), await numberIn(join(pids, 'stray'))]
  await first.close()
  expect([runs(game), runs(stray)]).toEqual([true, true])
  // Without the option, as before: what is running stays isolated, and is managed.
  const next = open(directory)
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  const supervisor = recordIn(directory).process.pid
  process.kill(supervisor, 'SIGKILL')
  await until('the supervisor is gone', () => !runs(supervisor))
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  await next.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect([runs(game), runs(stray)]).toEqual([false, false])
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
})

testAsRoot('an isolated game’s exit code is reported', async () => {
  const backend = open(freshDirectory(), isolated)
  await backend.create(shellGame('exit 7'))
  expect(await exited(backend)).toMatchObject({ exitCode: 7 })
})

testAsRoot('with runAs, all games run as that user and cannot read what belongs to the host', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { runAs: { user: 'nobody', group: 65_534 } })
  const script = `id -u; id -g; cat /proc/${process.pid}/environ >/dev/null 2>&1 && echo readable; echo done; exec sleep 600`
  expect(await outputOf(backend, shellGame(script))).toBe('65534\n65534\ndone')
  expect(recordIn(directory)).not.toHaveProperty('uidOfGame')
})

testAsRoot(
  'an isolation that cannot hold is an error at the start, which names the option and what is missing',
  async () => {
    expect(errorOf({ runAs: { user: 'no-such-user' } })).toMatchObject({
      code: 'invalid',
      message: 'processBackend: runAs cannot be used here: this machine has no user no-such-user',
    })
    expect(errorOf({ runAs: { user: 'root' } })).toMatchObject({
      message: expect.stringContaining('must not run as root'),
    })
    process.seteuid?.(65_534)
    const withoutRoot = errorOf(isolated)
    process.seteuid?.(0)
    expect(withoutRoot).toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(
        /^processBackend: isolation 'user' cannot be used here: this host must run as root/,
      ),
    })
    const closed = join(freshDirectory(), 'closed')
    mkdirSync(closed, { mode: 0o700 })
    await expect(open(join(closed, 'data'), isolated).list()).rejects.toMatchObject({
      code: 'directory-unusable',
      message: expect.stringContaining(`cannot enter ${closed}`),
    })
  },
)
