/** Games as services of systemd: what they see, what they cannot reach, and that they are managed like others. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { isolationsHere, processBackend } from '../../../../adapters/process/index.js'
import { fileStore } from '../../../../src/stores/file.js'
import { abandoned } from '../hosts.js'
import { homeOf, outputOf, place, recordIn, shellGame } from '../shell-games.js'
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
} from '../support.js'

afterEach(cleanUp)

const service = { isolation: 'systemd' } as const

const systemctl = (...args: readonly string[]) => execFileSync('systemctl', args, { encoding: 'utf8' })
const serviceIn = (directory: string, name?: string) => `gamekeeper-${recordIn(directory, name).nonce}.service`

const readRun = (directory: string) => readdirSync(join(homeOf(directory), `run-${recordIn(directory).nonce}`))

/** A folder outside of the backend's directory, whose name has every character that means something to systemd. */
function freshFolder(): string {
  const parent = mkdtempSync(join(tmpdir(), 'gamekeeper-install-'))
  onCleanUp(() => rmSync(parent, { recursive: true, force: true }))
  const folder = join(parent, `a b:c"d'e\\f$HOME\${g}%n;`)
  mkdirSync(folder)
  for (const one of [parent, folder]) chmodSync(one, 0o755)
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

test('a hostile game reaches no secret of the host, no other server, and no process outside', async () => {
  const directory = freshDirectory()
  const secrets = freshFolder()
  writeFileSync(join(secrets, 'tokens'), 'ops:0123456789abcdef', { mode: 0o644 })
  const backend = open(directory, service)
  await backend.create(shellGame('exec sleep 600.5', { name: 'other' }))
  const victim = await until('the other game runs', () => pidOf('sleep 600.5'))
  const other = homeOf(directory, 'other')
  const mine = homeOf(directory)
  const hidden = [
    join(other, 'gsdkConfig.json'),
    join(other, 'instance.json'),
    `/proc/${victim}/environ`,
    '/etc/shadow',
  ]
  for (const place of hidden) expect(readFileSync(place).length).toBeGreaterThan(0)
  const places = [...hidden, join(mine, 'instance.json'), `/proc/${process.pid}/environ`, '/proc/1/environ']
  const read = places.map((place) => `cat ${place} >/dev/null 2>&1 && echo readable ${place};`).join(' ')
  const write = `for f in / /usr /etc /run /sys ${directory} ${mine} ${other} ${mine}/run-*; do (echo x >$f/new) 2>/dev/null && echo wrote $f; done;`
  const attack = `kill -9 ${victim} ${process.pid} $PPID 2>/dev/null && echo killed;
    ls ${directory}/instances; ls ${mine}/run-* 2>/dev/null && echo listed; ls -d /proc/1 ${tmpdir()}/gamekeeper-install-* 2>/dev/null && echo seen;
    id -u; id -G; find /sys/fs/cgroup -name '*.service' | grep -vc "$(sed -n 's,.*/,,p' /proc/self/cgroup | grep gamekeeper | head -1)";
    grep -hE '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status | tr -d '\\t'; [ -e /run/systemd/private ] && echo systemd;
    mount -t tmpfs tmpfs /tmp 2>/dev/null && echo mounted; cp /bin/sh $HOME/sh; chmod u+s $HOME/sh 2>/dev/null && echo set-user-id;
    for f in $HOME $TMPDIR /tmp /var/tmp /dev/shm $PF_SERVER_LOG_DIRECTORY; do echo x >$f/file && echo wrote; done; cat $GSDK_CONFIG_FILE >/dev/null && echo own`
  const output = await outputOf(backend, shellGame(`${read} ${write} ${attack}; echo done; exec sleep 600`))
  const uid = recordIn(directory).uidOfGame
  expect(uid).toBeGreaterThanOrEqual(2_000_000_000)
  const rights = ['CapEff:0000000000000000', 'CapBnd:0000000000000000', 'NoNewPrivs:1']
  const wrote = Array.from({ length: 6 }, () => 'wrote')
  expect(output.split('\n')).toEqual([
    'default.arena-aaaaa',
    `${uid}`,
    `${uid}`,
    '0',
    ...rights,
    ...wrote,
    'own',
    'done',
  ])
  expect(runs(victim)).toBe(true)
  expect(readFileSync(join(mine, 'tmp', 'file'), 'utf8')).toBe('x\n')
})

test('a game has its own descriptors only, although the host has an open file store', async () => {
  const directory = freshDirectory()
  const store = await fileStore({ directory: join(directory, 'store') })
  onCleanUp(() => store.close())
  const listing =
    'for fd in /proc/$$/fd/*; do [ ! -L $fd ] || { printf "${fd##*/} "; readlink $fd; }; done; echo done; exec sleep 600'
  const output = await outputOf(open(directory, service), shellGame(listing))
  expect(output.replaceAll(/\/\S*\.log$/gm, 'its log').split('\n')).toEqual([
    '0 /dev/null',
    '1 its log',
    '2 its log',
    'done',
  ])
})

test('a game gets its variables, arguments and folders unchanged, and ps and systemctl show none of them', async () => {
  const [directory, install, assets] = [freshDirectory(), freshFolder(), freshFolder()]
  writeFileSync(join(install, 'level'), 'desert')
  writeFileSync(join(assets, 'music'), 'drums')
  const odd = `a 'b' "c" \\d \${HOME} $HOME %n %% ; | & \u0081é…\u{1F3B2}\n[Service]\nExecStart=/bin/false\n-z`
  const template = odd.replaceAll('$', () => '$$')
  const env = { ODD: template, 'my.setting': 'dotted', LD_PRELOAD: '', SECRET: 'hunter-2' }
  const code = `const { env, argv } = process
    console.log(JSON.stringify({ env, argv: argv.slice(1), cwd: process.cwd(), level: fs.readFileSync('level', 'utf8'), music: fs.readFileSync(argv[2] + '/music', 'utf8') }))
    try { fs.writeFileSync('level', '') } catch (error) { console.log(error.code) }
    console.log('done'); setInterval(() => {}, 1e6)`.replaceAll('$', () => '$$')
  const backend = open(directory, { ...service, readOnlyPaths: [assets] })
  const path = assets.replaceAll('$', () => '$$')
  const spec = specOf([process.execPath, '-e', code, '--', template, path], { env, workingDir: install })
  const [printed = '', refused] = (await outputOf(backend, spec)).split('\n')
  const game = JSON.parse(printed)
  expect(game).toMatchObject({ argv: [odd, assets], cwd: install, level: 'desert', music: 'drums' })
  expect(game.env).toMatchObject({ ...env, ODD: odd, HOME: join(homeOf(directory), 'home') })
  expect(Object.keys(game.env).filter((name) => /INVOCATION|JOURNAL|SYSTEMD|MEMORY_PRESSURE/.test(name))).toEqual([])
  expect(refused).toBe('EROFS')
  const unit = serviceIn(directory)
  const shown =
    systemctl('show', unit) + systemctl('cat', unit) + execFileSync('ps', ['axww', '-o', 'args'], { encoding: 'utf8' })
  expect(shown).toContain('gamekeeper-')
  for (const secret of ['hunter-2', 'dotted', 'arena-aaaaa.secret']) expect(shown).not.toContain(secret)
  // systemd reads the service's file again.
  systemctl('daemon-reload')
  expect(await onlyInstance(backend)).toMatchObject({ phase: 'running' })
})

test('a working directory that would add a line to the service’s file is refused', async () => {
  const folder = freshFolder()
  const evil = join(folder, 'x\nExecStopPost=+')
  mkdirSync(evil, { recursive: true })
  const instance = await open(freshDirectory(), service).create(specOf(['/bin/sh', '-c', ':'], { workingDir: evil }))
  expect(instance).toMatchObject({
    phase: 'exited',
    exitCode: 126,
    reason: expect.stringContaining('accepts no control characters in the path'),
  })
})

test('exit codes and signals are reported', async () => {
  const backend = open(freshDirectory(), service)
  await backend.create(shellGame('exit 7'))
  expect(await exited(backend)).toMatchObject({ exitCode: 7 })
  const killed = open(freshDirectory(), service)
  await killed.create(shellGame('kill -SEGV $$'))
  expect(await exited(killed)).toMatchObject({ exitCode: 139, reason: expect.stringContaining('killed by SIGSEGV') })
})

test('SIGTERM reaches the game and what it started, which have the whole grace period', async () => {
  const directory = freshDirectory()
  const backend = open(directory, service)
  const home = join(homeOf(directory), 'home')
  const child = `trap 'echo >child-signalled; while [ ! -e go ]; do sleep 0.01; done; echo >$HOME/../GameLogs/saved; exit' TERM; echo >child-up; while :; do sleep 0.01; done`
  const spec = specOf(
    ['/bin/sh', '-c', `/bin/sh -c "$CHILD" & trap 'exit 3' TERM; echo >up; while :; do sleep 0.01; done`],
    { env: { CHILD: child } },
  )
  await backend.create(spec)
  await until(
    'both run',
    () => contentOf(join(home, 'up')) !== undefined && contentOf(join(home, 'child-up')) !== undefined,
  )
  const destroyed = backend.destroy(spec.ref, spec.uid, { graceMs: 600_000 })
  await until('the child has got the signal', () => contentOf(join(home, 'child-signalled')))
  expect(contentOf(join(homeOf(directory), 'GameLogs', 'saved'))).toBeUndefined()
  await until('the game has ended, before its child', () => readRun(directory).includes('exit'))
  expect(await backend.list()).toHaveLength(1)
  writeFileSync(join(home, 'go'), '')
  await destroyed
  expect(await backend.list()).toEqual([])
})

test('the process of a service is recorded although it is slow to become the supervisor', async () => {
  const directory = freshDirectory()
  const real = '/usr/bin/env-of-system'
  const slow = join(directory, 'env')
  // While a process becomes another program, Linux shows neither its arguments nor its environment: here for a second.
  writeFileSync(slow, `#!/usr/bin/perl\n$0 = 'env';\nsleep 1;\nexec '${real}', @ARGV;\n`, { mode: 0o755 })
  copyFileSync('/usr/bin/env', real)
  execFileSync('mount', ['--bind', slow, '/usr/bin/env'])
  onCleanUp(() => void execFileSync('umount', ['/usr/bin/env']))
  const backend = open(directory, service)
  await backend.create(shellGame('exec sleep 600.77'))
  const supervisor = await until('its process is recorded', () => recordIn(directory).process?.pid)
  const game = await until('the game runs', () => pidOf('sleep 600.77'))
  expect(readFileSync(`/proc/${game}/status`, 'utf8')).toContain(`\nPPid:\t${supervisor}\n`)
})

test('a game outlives a host that is killed, is adopted, and ends with all its processes and its service', async () => {
  const directory = freshDirectory()
  const home = join(homeOf(directory), 'home')
  const spec = shellGame(`setsid env -i sleep 600.75 & echo 5 >$HOME/up; exec sleep 600.76`, { ports: [7777] })
  await abandoned(directory, spec, join(home, 'up'), service)
  const stray = await until('the stray runs', () => pidOf('sleep 600.75'))
  const game = await until('the game runs', () => pidOf('sleep 600.76'))
  const unit = serviceIn(directory)
  expect(systemctl('is-active', unit)).toBe('active\n')
  expect(systemctl('show', '--property=ControlGroup', '--value', unit)).toBe(`/gamekeeper.slice/${unit}\n`)
  const next = open(directory, service)
  expect(await onlyInstance(next)).toMatchObject({ phase: 'running' })
  await next.destroy(spec.ref, spec.uid, { graceMs: 600_000 })
  expect([runs(game), runs(stray)]).toEqual([false, false])
  expect(readdirSync(join(directory, 'instances'))).toEqual([])
  await until('systemd has removed the service', () => !systemctl('list-units', '--all', '--plain').includes(unit))
})

test('an adopted game reports its exit code, also if its record was lost', async () => {
  const directory = freshDirectory()
  const script = `trap 'exit 9' TERM; echo 5 >$HOME/up; while :; do sleep 0.01; done`
  const spec = shellGame(script)
  await abandoned(directory, spec, join(homeOf(directory), 'home', 'up'), service)
  rmSync(join(homeOf(directory), 'instance.json'))
  const next = open(directory, { ...service, logger: false })
  const game = await until('the game runs', () => pidOf(`/bin/sh -c ${script}`))
  expect(await onlyInstance(next)).toMatchObject({ ref: spec.ref, uid: spec.uid, phase: 'running' })
  process.kill(game, 'SIGTERM')
  expect(await exited(next)).toMatchObject({ exitCode: 9 })
})

test('an operator who stops the service ends the game, and its exit code is reported', async () => {
  const directory = freshDirectory()
  const backend = open(directory, service)
  await backend.create(shellGame(`trap 'exit 4' TERM; echo >$HOME/up; while :; do sleep 0.01; done`))
  await until('the game runs', () => contentOf(join(homeOf(directory), 'home', 'up')))
  systemctl('stop', serviceIn(directory))
  expect(await exited(backend)).toMatchObject({ exitCode: 4 })
})

test('a game that exceeds its memory is ended, which its message says; its neighbour goes on', async () => {
  const directory = freshDirectory()
  const backend = open(directory, service)
  await backend.create(shellGame('exec sleep 600.9', { name: 'neighbour' }))
  const neighbour = await until('the neighbour runs', () => pidOf('sleep 600.9'))
  const greedy = `const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1))`
  const spec = specOf([process.execPath, '-e', greedy], { memory: '200Mi' })
  await backend.create(spec)
  const instance = await until('it has been ended', async () =>
    (await backend.list()).find(({ ref, phase }) => ref.name === spec.ref.name && phase === 'exited'),
  )
  expect(instance).toMatchObject({
    exitCode: 137,
    reason: expect.stringMatching(/^out of memory: it exceeded its limit of 209715200 bytes; killed by SIGKILL; /),
  })
  expect(runs(neighbour)).toBe(true)
})

test('a command of a later host runs in the service of its game: with its view, user, folders and limits', async () => {
  const directory = freshDirectory()
  const options = { ...service, limits: { tasks: 40, openFiles: 200 } }
  const first = open(directory, options)
  const look = `${place}; ls / /run $HOME | md5sum; echo x >$TMPDIR/file && ls /tmp; ls -l /dev | wc -l; echo done`
  const spec = shellGame(`echo x >$TMPDIR/of-the-game; ${look}; exec sleep 600`, { memory: '100Mi' })
  const found = await outputOf(first, spec)
  await first.close()
  const second = open(directory, options)
  const run = async (script: string) => second.exec?.(spec.ref, ['sh', '-c', script])
  expect(await run(look)).toEqual({ exitCode: 0, output: `${found}\n` })
  expect(found).toMatch(/CapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\n[^]*\nalone\n/)
  const stop = new AbortController()
  const hanging = second.exec?.(spec.ref, ['sleep', '600.6'], { signal: stop.signal })
  await until('the command runs', () => pidOf('sleep 600.6'))
  stop.abort()
  await expect(hanging).rejects.toMatchObject({ code: 'aborted' })
  await until('it is gone', () => pidOf('sleep 600.6') === undefined)
  const greedy = await run('head -c 300m /dev/zero | tail -c 200m | wc -c')
  expect(greedy?.output).not.toContain('209715200')
})

test('limits of tasks and files hold, and the status says so', async () => {
  const backend = open(freshDirectory(), { ...service, limits: { tasks: 40, openFiles: 200 } })
  expect(backend.isolation).toEqual({
    mode: 'systemd',
    memory: 'per server, by systemd',
    pids: 'at most 40 per server, by systemd',
  })
  const script = `ulimit -n; (for i in $(seq 60); do sleep 600 & done) 2>&1 | grep -qi fork && echo limited; echo done; exec sleep 600`
  expect(await outputOf(backend, shellGame(script))).toBe('200\nlimited\ndone')
})

test('with runAs, all games run as that user, and what one leaves behind ends with it', async () => {
  const backend = open(freshDirectory(), { ...service, runAs: { user: 'nobody', group: 65_534 } })
  const spec = shellGame('setsid env -i sleep 600.3 & id -u; id -g; echo done; exec sleep 600')
  expect(await outputOf(backend, spec)).toBe('65534\n65534\ndone')
  const stray = await until('the stray runs', () => pidOf('sleep 600.3'))
  await backend.destroy(spec.ref, spec.uid, { graceMs: 10_000 })
  expect(runs(stray)).toBe(false)
})

test('a host that is not root, or is to end games with itself, is refused by name', () => {
  expect(isolationsHere()).toMatchObject({ systemd: undefined })
  process.seteuid?.(65_534)
  const withoutRoot = isolationsHere().systemd
  process.seteuid?.(0)
  expect(withoutRoot).toBe('this host must run as root, to start services')
  expect(() => processBackend({ ...service, development: true })).toThrow(/development must be left out with isolation/)
})
