/** Games in a sandbox: what they see, what they cannot reach, and that they are managed like others. */
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect } from 'vitest'
import { processBackend } from '../../../adapters/process/index.js'
import { fileStore } from '../../../src/stores/file.js'
import { testInSandbox } from './as-root.js'
import { abandoned } from './hosts.js'
import { homeOf, outputOf, recordIn, shellGame } from './shell-games.js'
import {
  cleanUp,
  contentOf,
  exited,
  freshDirectory,
  onCleanUp,
  onlyInstance,
  open,
  runs,
  specOf,
  until,
} from './support.js'

afterEach(cleanUp)

const sandboxed = { isolation: 'bubblewrap' } as const

/** A folder outside of the backend's directory. */
function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gamekeeper-install-'))
  onCleanUp(() => rmSync(folder, { recursive: true, force: true }))
  chmodSync(folder, 0o755)
  return folder
}

/** The process with these words among its arguments, as the host sees it. */
function pidOf(words: string): number | undefined {
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    const command = contentOf(`/proc/${name}/cmdline`)?.split('\0').join(' ').trim()
    if (command === words && runs(Number(name))) return Number(name)
  }
  return undefined
}

testInSandbox('a hostile game reaches no secret of the host, no other server, and no process outside', async () => {
  const directory = freshDirectory()
  const secrets = freshFolder()
  writeFileSync(join(secrets, 'tokens'), 'ops:0123456789abcdef', { mode: 0o644 })
  const store = await fileStore({ directory: join(directory, 'store') })
  const backend = open(directory, sandboxed)
  await backend.create(shellGame('exec sleep 600.5', { name: 'other' }))
  const victim = await until('the other game runs', () => pidOf('sleep 600.5'))
  const other = homeOf(directory, 'other')
  const places = [
    join(secrets, 'tokens'),
    join(directory, 'store', 'data.mdb'),
    join(other, 'gsdkConfig.json'),
    join(other, 'instance.json'),
    join(homeOf(directory), 'instance.json'),
    join(directory, 'logs', 'default.other.log'),
    '/etc/shadow',
    `/proc/${process.pid}/environ`,
    `/proc/${victim}/environ`,
    join('/proc/1', 'root', secrets, 'tokens'),
    fileURLToPath(import.meta.url),
  ]
  const own = join(homeOf(directory), 'instance.json')
  for (const place of places.filter((one) => one !== own && !one.includes('/1/'))) {
    expect(readFileSync(place).length >= 0).toBe(true)
  }
  const read = places.map((place) => `cat ${place} >/dev/null 2>&1 && echo readable ${place};`).join(' ')
  const write = `for f in / /usr /etc /run ${directory} ${homeOf(directory)} ${other}; do (echo x >$f/new) 2>/dev/null && echo wrote $f; done;`
  const attack = `kill -9 ${victim} ${process.pid} 2>/dev/null && echo killed;
    ls ${directory}/instances; ls /proc | grep -cE '^[0-9]+$' | grep -qE '^[1-9]$' && echo few; id -u;
    mount -t tmpfs tmpfs /usr 2>/dev/null && echo mounted; cat $GSDK_CONFIG_FILE >/dev/null && echo own;
    for f in $HOME $TMPDIR /tmp /var/tmp /dev/shm $PF_SERVER_LOG_DIRECTORY; do echo x >$f/file && echo wrote; done`
  const output = await outputOf(backend, shellGame(`${read} ${write} ${attack}; echo done; exec sleep 600`))
  const uid = recordIn(directory).uidOfGame
  expect(uid).toBeGreaterThanOrEqual(2_000_000_000)
  const wrote = Array.from({ length: 6 }, () => 'wrote')
  expect(output.split('\n')).toEqual(['default.arena-aaaaa', 'few', String(uid), 'own', ...wrote, 'done'])
  expect(runs(victim)).toBe(true)
  expect(readFileSync(join(homeOf(directory), 'tmp', 'file'), 'utf8')).toBe('x\n')
  await store.close()
})

testInSandbox('a game sees its working directory, its program, and readOnlyPaths, and cannot change them', async () => {
  const [directory, install, assets, tools] = [freshDirectory(), freshFolder(), freshFolder(), freshFolder()]
  writeFileSync(join(install, 'level'), 'desert')
  writeFileSync(join(assets, 'music'), 'drums')
  writeFileSync(join(tools, 'beside'), 'x')
  const program = join(tools, 'shell')
  copyFileSync('/bin/sh', program)
  chmodSync(program, 0o755)
  const backend = open(directory, { ...sandboxed, readOnlyPaths: [assets] })
  const script = `cat level; echo; cat ${assets}/music; echo; pwd; ls ${tools}
    (echo x >level) 2>/dev/null || echo fixed; echo done; exec sleep 600`
  const output = await outputOf(backend, specOf([program, '-c', script], { workingDir: install }))
  expect(output.split('\n')).toEqual(['desert', 'drums', install, 'shell', 'fixed', 'done'])
  const inside = specOf(['/bin/sh', '-c', ':'], { name: 'inside', workingDir: join(directory, 'instances') })
  expect(await backend.create(inside)).toMatchObject({
    phase: 'exited',
    exitCode: 126,
    reason: expect.stringContaining("which isolation 'bubblewrap' hides from games"),
  })
})

testInSandbox('a game reaches the network of the machine', async () => {
  const server = createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1')
  onCleanUp(() => void server.close())
  const port = await until('the server listens', () => {
    const address = server.address()
    return typeof address === 'object' && address !== null && address.port
  })
  const game = `require('net').connect(${port}, '127.0.0.1').on('data', (text) => console.log(text + 'done')); setInterval(() => {}, 1e6)`
  expect(await outputOf(open(freshDirectory(), sandboxed), specOf([process.execPath, '-e', game]))).toBe('hello\ndone')
})

testInSandbox('SIGTERM reaches the game and what it started, which have the whole grace period', async () => {
  const directory = freshDirectory()
  const backend = open(directory, sandboxed)
  const home = join(homeOf(directory), 'home')
  // The shell ends on SIGTERM, its child only when the test allows it.
  const child = `trap 'echo >child-signalled; while [ ! -e go ]; do sleep 0.01; done; echo >$HOME/../GameLogs/saved; exit' TERM; echo >child-up; while :; do sleep 0.01; done`
  const spec = specOf(
    ['/bin/sh', '-c', `/bin/sh -c "$CHILD" & trap 'exit 3' TERM; echo >up; while :; do sleep 0.01; done`],
    {
      env: { CHILD: child },
    },
  )
  await backend.create(spec)
  await until(
    'both run',
    () => contentOf(join(home, 'up')) !== undefined && contentOf(join(home, 'child-up')) !== undefined,
  )
  const destroyed = backend.destroy(spec.ref, spec.uid, { graceMs: 600_000 })
  await until('the child has got the signal', () => contentOf(join(home, 'child-signalled')))
  expect(contentOf(join(homeOf(directory), 'GameLogs', 'saved'))).toBeUndefined()
  expect(await onlyInstance(backend)).toMatchObject({ phase: 'running' })
  writeFileSync(join(home, 'go'), '')
  await destroyed
  expect(await backend.list()).toEqual([])
})

testInSandbox('the exit code of a game is reported, also if a signal ended it', async () => {
  const backend = open(freshDirectory(), sandboxed)
  await backend.create(shellGame('exit 7'))
  expect(await exited(backend)).toMatchObject({ exitCode: 7 })
  const killed = open(freshDirectory(), sandboxed)
  await killed.create(shellGame('kill -SEGV $$'))
  expect(await exited(killed)).toMatchObject({ exitCode: 139, reason: expect.stringContaining('killed by SIGSEGV') })
})

testInSandbox(
  'what a game leaves behind ends with it, even if it cleared its environment and left its session',
  async () => {
    const backend = open(freshDirectory(), sandboxed)
    await backend.create(
      shellGame(
        `setsid env -i sleep 600.25 & sleep 0.1; setsid env -i /bin/sh -c 'sleep 600.26 & sleep 600.27' & while ! ps -ef | grep -q '[6]00.27'; do :; done; exit 4`,
      ),
    )
    expect(await exited(backend)).toMatchObject({ exitCode: 4 })
    for (const words of ['sleep 600.25', 'sleep 600.26', 'sleep 600.27']) {
      await until(`${words} is gone`, () => pidOf(words) === undefined)
    }
  },
)

testInSandbox('a game outlives a host that is killed, is adopted, and ends with all its processes', async () => {
  const directory = freshDirectory()
  const home = join(homeOf(directory), 'home')
  const spec = shellGame(`setsid env -i sleep 600.75 & echo 5 >$HOME/up; exec sleep 600.76`, { ports: [7777] })
  await abandoned(directory, spec, join(home, 'up'), sandboxed)
  const [stray, game] = [
    await until('the stray runs', () => pidOf('sleep 600.75')),
    await until('the game runs', () => pidOf('sleep 600.76')),
  ]
  // Without the option, as before: what is running stays in its sandbox.
  const next = open(directory)
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  const supervisor = recordIn(directory).process.pid
  process.kill(supervisor, 'SIGKILL')
  await until('the supervisor is gone', () => !runs(supervisor))
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  expect([runs(game), runs(stray)]).toEqual([true, true])
  await next.destroy(spec.ref, spec.uid, { graceMs: 600_000 })
  expect([runs(game), runs(stray)]).toEqual([false, false])
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
})

testInSandbox('an adopted game gets SIGTERM and reports its exit code', async () => {
  const directory = freshDirectory()
  const path = join(homeOf(directory), 'home', 'up')
  const script = `trap 'echo ended >$PF_SERVER_LOG_DIRECTORY/ended; exit 9' TERM; echo 5 >$HOME/up; while :; do sleep 0.01; done`
  const spec = shellGame(script)
  await abandoned(directory, spec, path, sandboxed)
  const next = open(directory, sandboxed)
  const game = await until('the game runs', () => pidOf(`/bin/sh -c ${script}`))
  process.kill(game, 'SIGTERM')
  expect(await exited(next)).toMatchObject({ exitCode: 9 })
  expect(contentOf(join(homeOf(directory), 'GameLogs', 'ended'))).toBe('ended\n')
})

testInSandbox('with runAs, all games run as that user', async () => {
  const backend = open(freshDirectory(), { ...sandboxed, runAs: { user: 'nobody', group: 65_534 } })
  expect(await outputOf(backend, shellGame('id -u; id -g; echo done; exec sleep 600'))).toBe('65534\n65534\ndone')
})

testInSandbox('a template’s variables do not reach the programs outside of the sandbox', async () => {
  const directory = freshDirectory()
  const folder = freshFolder()
  const seen = join(folder, 'seen')
  for (const name of ['bwrap', 'setpriv', 'prlimit']) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho >>${seen}\n`, { mode: 0o755 })
  }
  const env = { PATH: `${folder}:${process.env['PATH']}`, 'my.setting': 'odd' }
  const output = await outputOf(
    open(directory, sandboxed),
    shellGame(
      `export PATH=/usr/bin:/bin; tr '\\0' '\\n' </proc/$$/environ | grep -cE '^(my.setting=odd|PATH=${folder}:.*)$'; echo done; exec sleep 600`,
      { env },
    ),
  )
  expect(output).toBe('2\ndone')
  expect(contentOf(seen)).toBeUndefined()
})

testInSandbox('a host that is not root isolates games in the same way, as its own user', async () => {
  const nobody = 65_534
  const folder = freshFolder()
  chmodSync(folder, 0o777)
  const directory = join(folder, 'data')
  const host = fileURLToPath(new URL('host.ts', import.meta.url))
  const script = `cat ${folder}/secret 2>/dev/null && echo readable; ls /proc | grep -cE '^[0-9]+$' | grep -qE '^[1-9]$' && echo few; id -u; echo done`
  writeFileSync(join(folder, 'secret'), 'secret', { mode: 0o644 })
  const specs = JSON.stringify([shellGame(script)])
  const args = ['--import', 'tsx', host, directory, specs, '1', JSON.stringify(sandboxed)]
  mkdirSync(directory)
  chownSync(directory, nobody, nobody)
  const env = { PATH: process.env['PATH'], TMPDIR: folder }
  const child = spawn(process.execPath, args, { uid: nobody, gid: nobody, stdio: ['ignore', 'ignore', 'inherit'], env })
  onCleanUp(() => void child.kill('SIGKILL'))
  const log = join(directory, 'logs', 'default.arena-aaaaa.log')
  const output = await until('the game has printed its output', () => {
    const text = contentOf(log)
    return text?.endsWith('done\n') === true && text
  })
  expect(output).toBe('few\n65534\ndone\n')
})

testInSandbox('without bubblewrap, the error names what is missing and how to install it', async () => {
  const hidden = 'mount -t tmpfs tmpfs /tmp 2>/dev/null; mount --bind /dev/null "$(command -v bwrap)" && exec "$@"'
  const code = `import('${new URL('../../../adapters/process/index.ts', import.meta.url).pathname}').then(({ processBackend }) => {
    try { processBackend({ directory: '/var/lib/none', isolation: 'bubblewrap' }); console.log('no error') } catch (error) { console.log(error.code + ' ' + error.message) } })`
  const run = spawnSync(
    'unshare',
    ['--mount', 'sh', '-c', hidden, 'sh', process.execPath, '--import', 'tsx', '-e', code],
    { encoding: 'utf8' },
  )
  expect(run.stdout).toMatch(
    /^invalid processBackend: isolation 'bubblewrap' cannot be used here: it needs the program bwrap; install the package bubblewrap/,
  )
  expect(processBackend(sandboxed).name).toBe('process')
})
