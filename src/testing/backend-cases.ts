/** The cases of the backend conformance suite. */
import assert from 'node:assert/strict'
import { FleetError } from '../contracts/errors.js'
import type { ExecOptions, Instance, InstanceSpec } from '../contracts/backend.js'
import type { Ref } from '../rules/model/resources.js'
import { type Received, rejectsWith, type Subject } from './backend-subject.js'

export interface BackendCase {
  /** If set, the case needs a backend with exactly this many public ports. */
  readonly publicPorts?: number
  check(subject: Subject): Promise<void>
}

/** Preserves the case names as literal types, so that a misspelt name does not compile. */
function backendCases<N extends string>(cases: Readonly<Record<N, BackendCase>>): Readonly<Record<N, BackendCase>> {
  return cases
}

// Create and list.

export const lifecycleCases = backendCases({
  'create: the instance is listed at once and reaches running with an address': {
    async check(subject) {
      const spec = subject.spec('runs')
      const created = await subject.backend.create(spec)
      assert.deepEqual(created.ref, spec.ref)
      assert.equal(created.uid, spec.uid)
      assert.ok(await subject.find(spec), 'the instance must be listed as soon as create has resolved')
      const running = await subject.inPhase(spec, 'running')
      assert.deepEqual(running.ref, spec.ref)
      assert.ok(running.address, 'a running instance must have an address')
      assert.equal(running.exitCode, undefined, 'a running instance must have no exit code')
    },
  },

  'create: the same ref and uid returns the existing instance': {
    async check(subject) {
      const spec = subject.spec('runs')
      const first = await subject.running(spec)
      const again = await subject.backend.create(spec)
      assert.equal(again.uid, spec.uid)
      assert.deepEqual(again.ports, first.ports)
      assert.equal((await subject.backend.list()).length, 1)
    },
  },

  'create: concurrent calls with the same ref and uid create one instance': {
    async check(subject) {
      const spec = subject.spec('runs', { portsToExpose: [7777, 7778] })
      await Promise.all(Array.from({ length: 5 }, () => subject.backend.create(spec)))
      const running = await subject.inPhase(spec, 'running')
      for (const again of await Promise.all(Array.from({ length: 5 }, () => subject.backend.create(spec)))) {
        assert.deepEqual(again.ports, running.ports)
      }
      assert.equal((await subject.backend.list()).length, 1)
    },
  },

  'create: rejects another uid for the ref of an existing instance with conflict': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await rejectsWith('conflict', subject.backend.create(subject.spec('runs', { name: spec.ref.name })))
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'create: the ref of a destroyed instance can be reused': {
    async check(subject) {
      const first = subject.spec('runs')
      await subject.running(first)
      await subject.destroyNow(first)
      const second = subject.spec('runs', { name: first.ref.name })
      await subject.running(second)
      assert.equal(await subject.find(first), undefined)
    },
  },

  'list: shows exit code 0': {
    async check(subject) {
      const spec = subject.spec('exits-0')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 0)
    },
  },

  'list: shows other exit codes': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'list: shows an exited instance until it is destroyed': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      const other = subject.spec('runs')
      await subject.running(other)
      await subject.destroyNow(other)
      assert.deepEqual(await subject.find(spec), exited)
      const again = await subject.backend.create(spec)
      assert.equal(again.phase, 'exited', 'a repeated create must not start an exited instance again')
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'list: shows a missing command as an exited instance with a reason': {
    async check(subject) {
      const spec = subject.spec('no-such-command')
      await subject.backend.create(spec)
      const exited = await subject.inPhase(spec, 'exited')
      assert.ok(exited.reason?.trim(), 'the exited instance must have a reason')
      assert.notEqual(exited.exitCode, 0)
    },
  },

  'every call with an aborted signal rejects with aborted and has no effect': {
    async check(subject) {
      const { backend } = subject
      const signal = AbortSignal.abort()
      await rejectsWith('aborted', backend.create(subject.spec('runs'), { signal }))
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await rejectsWith('aborted', backend.destroy(spec.ref, spec.uid, { graceMs: 0, signal }))
      await rejectsWith('aborted', backend.list({ signal }))
      assert.deepEqual(await backend.list(), [before])
    },
  },

  'list: shows all instances': {
    async check(subject) {
      const specs = [
        ...Array.from({ length: 8 }, () => subject.spec('runs')),
        ...Array.from({ length: 4 }, () => subject.spec('exits-3')),
      ]
      await Promise.all(specs.map((spec) => subject.backend.create(spec)))
      const listed = (await subject.backend.list()).map((instance) => instance.uid)
      assert.deepEqual(listed.sort(), specs.map((spec) => spec.uid).sort())
    },
  },

  'the same name in two namespaces is two instances': {
    async check(subject) {
      const [one, two] = subject.namespaces
      const first = subject.spec('runs', { namespace: one })
      const second = subject.spec('runs', { namespace: two, name: first.ref.name })
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.destroyNow(first)
      const left = await subject.backend.list()
      assert.deepEqual(
        left.map(({ ref, uid }) => ({ ref, uid })),
        [{ ref: second.ref, uid: second.uid }],
      )
      assert.equal(left[0]?.phase, 'running')
    },
  },
})

// Assigning and releasing public ports.

export const portCases = backendCases({
  'ports: listed in the order of portsToExpose': {
    async check(subject) {
      const portsToExpose = [7777, 7000, 9000]
      const running = await subject.running(subject.spec('runs', { portsToExpose }))
      assert.deepEqual(
        running.ports.map((port) => port.container),
        portsToExpose,
      )
      for (const port of running.ports) {
        assert.ok(Number.isInteger(port.public) && port.public >= 1 && port.public <= 65_535, `port ${port.public}`)
      }
    },
  },

  'ports: an instance without portsToExpose has none': {
    async check(subject) {
      assert.deepEqual((await subject.running(subject.spec('runs', { portsToExpose: [] }))).ports, [])
    },
  },

  'ports: concurrent creates share no public port': {
    async check(subject) {
      const specs = Array.from({ length: 8 }, () => subject.spec('runs', { portsToExpose: [7777, 7778] }))
      const running = await Promise.all(specs.map((spec) => subject.running(spec)))
      const held = running.flatMap(({ node, ports }) => ports.map((port) => `${node}:${port.public}`))
      assert.equal(held.length, 16)
      assert.equal(new Set(held).size, 16, `a public port was assigned twice: ${held.join(' ')}`)
    },
  },

  'ports: create rejects with ports-exhausted and creates nothing if too few are free': {
    publicPorts: 2,
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      const tooMany = subject.spec('runs', { portsToExpose: [7777, 7778] })
      await rejectsWith('ports-exhausted', subject.backend.create(tooMany))
      assert.equal((await subject.backend.list()).length, 1)
      await subject.running(subject.spec('runs'))
    },
  },

  'ports: free again after destroy': {
    publicPorts: 2,
    async check(subject) {
      for (const kind of ['runs', 'exits-3', 'runs', 'no-such-command', 'runs'] as const) {
        const spec = subject.spec(kind, { portsToExpose: [7777, 7778] })
        await subject.backend.create(spec)
        await subject.inPhase(spec, kind === 'runs' ? 'running' : 'exited')
        await Promise.all([subject.destroyNow(spec), subject.destroyNow(spec)])
      }
    },
  },
})

// Listeners receive events. A backend may send a `resync` instead of an event.

export const watchCases = backendCases({
  'watch: reports a running instance': {
    async check(subject) {
      const received = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await expectReported(subject, received, spec, (instance) => instance.phase === 'running')
    },
  },

  'watch: reports an exit with its code': {
    async check(subject) {
      const received = await subject.watch()
      const specs = [subject.spec('exits-0'), subject.spec('exits-3')] as const
      await Promise.all(specs.map((spec) => subject.backend.create(spec)))
      await expectReported(subject, received, specs[0], ({ phase, exitCode }) => phase === 'exited' && exitCode === 0)
      await expectReported(subject, received, specs[1], ({ phase, exitCode }) => phase === 'exited' && exitCode === 3)
    },
  },

  'watch: reports a destroyed instance': {
    async check(subject) {
      const received = await subject.watch()
      const spec = subject.spec('runs')
      await subject.running(spec)
      const resyncs = received.resyncs
      await subject.destroyNow(spec)
      await subject.eventually('gone or resync', () => {
        const gone = received.gone.find(({ uid }) => uid === spec.uid)
        if (gone) assert.deepEqual({ ...gone.ref }, { ...spec.ref })
        return gone || received.resyncs > resyncs || undefined
      })
    },
  },

  'watch: reports to every listener': {
    async check(subject) {
      const listeners = [await subject.watch(), await subject.watch()]
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      for (const received of listeners)
        await expectReported(subject, received, spec, (instance) => instance.phase === 'exited')
    },
  },

  'watch: reports nothing to a stopped listener': {
    async check(subject) {
      const stopped = await subject.watch()
      const other = await subject.watch()
      stopped.stop()
      stopped.stop()
      const spec = subject.spec('runs')
      await subject.running(spec)
      await expectReported(subject, other, spec, (instance) => instance.phase === 'running')
      await subject.destroyNow(spec)
      await subject.eventually('the other listener receives the deletion', () => {
        return other.gone.some(({ uid }) => uid === spec.uid) || other.resyncs > 0 || undefined
      })
      assert.deepEqual([stopped.changed.length, stopped.gone.length], [0, 0])
    },
  },

  'watch: a listener that throws does not affect others': {
    async check(subject) {
      const fail = () => {
        throw new Error('thrown on purpose by a listener of the conformance suite')
      }
      subject.backend.watch({ changed: fail, gone: fail, resync: fail, heartbeat: fail })
      const received = await subject.watch()
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await expectReported(subject, received, spec, (instance) => instance.phase === 'exited')
      await subject.destroyNow(spec)
      const next = subject.spec('runs')
      await subject.running(next)
      await expectReported(subject, received, next, (instance) => instance.phase === 'running')
    },
  },
})

/** Waits for the event, or for a `resync` after which `list` shows the change. */
async function expectReported(
  subject: Subject,
  received: Received,
  spec: InstanceSpec,
  holds: (instance: Instance) => boolean,
): Promise<void> {
  await subject.eventually(`the listener receives ${spec.ref.name}`, async () => {
    if (received.changed.some((instance) => instance.uid === spec.uid && holds(instance))) return true
    if (received.resyncs === 0) return undefined
    const listed = await subject.find(spec)
    return (listed && holds(listed)) || undefined
  })
}

// Lines reach the standard input of a game, and its log stays. Need a backend with `logs` and `writeStdin`.

export const stdinCases = backendCases({
  'stdin: lines reach the game in their order, before and after a host restart': {
    async check(subject) {
      const { ref } = subject.spec('prints-stdin')
      await subject.running(subject.spec('prints-stdin', { name: ref.name }))
      const first = ['say hello', '', `über ${'x'.repeat(4_000)}`]
      for (const line of first) await write(subject, ref, line)
      await printed(subject, ref, first)
      await subject.reopen()
      await write(subject, ref, 'stop')
      await printed(subject, ref, [...first, 'stop'])
    },
  },

  'logs: what a game has printed can be read after it was destroyed, if that was asked for': {
    async check(subject) {
      const spec = subject.spec('prints-stdin')
      const { ref, uid } = spec
      await subject.running(spec)
      await write(subject, ref, 'say hello')
      await printed(subject, ref, ['say hello'])
      await hasOrigin(subject, ref)
      await subject.backend.destroy(ref, uid, { graceMs: 0, keepLog: true })
      assert.deepEqual(await subject.backend.list(), [])
      await printed(subject, ref, ['say hello'])
      await hasOrigin(subject, ref)
    },
  },

  'usage: is measured while a game runs, where the system measures it': {
    async check(subject) {
      const { backend } = subject
      assert.ok(backend.usage, 'the backend has no usage')
      const spec = subject.spec('runs')
      await subject.running(spec)
      try {
        const { memoryBytes, cpuSeconds, cpuCores } = await backend.usage(spec.ref)
        assert.ok(memoryBytes > 0, `it uses ${memoryBytes} bytes`)
        assert.ok((cpuSeconds ?? cpuCores ?? -1) >= 0, 'it has no CPU time')
      } catch (error) {
        if (!FleetError.is(error, 'unsupported')) throw error
      }
      await rejectsWith('not-found', backend.usage({ ...spec.ref, name: 'nobody' }))
      await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
      await rejectsWith('not-found', backend.usage(spec.ref))
    },
  },

  'stdin: a game without it takes no line, nor does one that does not exist': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      await rejectsWith('no-stdin', write(subject, spec.ref, 'hello'))
      await rejectsWith('not-found', write(subject, { ...spec.ref, name: 'nobody' }, 'hello'))
    },
  },
})

async function write({ backend }: Subject, ref: Ref, line: string): Promise<void> {
  assert.ok(backend.writeStdin, 'the backend has no writeStdin')
  await backend.writeStdin(ref, `${line}\n`)
}

/** Says of each line what it knows. */
async function hasOrigin({ backend }: Subject, ref: Ref): Promise<void> {
  for await (const line of backend.logs?.(ref, { origin: true }) ?? [])
    assert.match(line, /^(-|\d{4}-\d\d-\d\dT[\d:.]+Z) (-|stdout|stderr) say hello$/)
}

function printed(subject: Subject, ref: Ref, expected: readonly string[]): Promise<unknown> {
  return subject.eventually(`the game has printed ${expected.length} lines`, async () => {
    const lines: string[] = []
    for await (const line of subject.backend.logs?.(ref) ?? []) lines.push(line)
    if (lines.length < expected.length) return undefined
    assert.deepEqual(lines, expected)
    return true
  })
}

// Commands where a game runs, which has `sh`. Need a backend with `exec`.

export const execCases = backendCases({
  'exec: a command has its arguments as they are, the environment of its game, and an exit code': {
    async check(subject) {
      const { ref } = await commandable(subject)
      const script = 'echo "$1|$2|$3|$PF_GAMESERVER_NAME"; echo done >&2; exit 3'
      let starts = 0
      const onStarted = () => void starts++
      const command = ['sh', '-c', script, 'sh', 'a b', '', '$(X) $HOME "']
      const { exitCode, output } = await exec(subject, ref, command, { onStarted })
      assert.equal(exitCode, 3)
      assert.equal(starts, 1, 'the start of a command is reported once')
      assert.deepEqual(output.trim().split('\n').toSorted(), [`a b||$(X) $HOME "|${ref.name}`, 'done'])
      const { exitCode: missing } = await exec(subject, ref, ['/no/such/command'])
      assert.ok(missing === 126 || missing === 127, `the exit code of a missing program is ${missing}`)
    },
  },

  'exec: a command reads lines, and what it writes is there for the next one, also after a host restart': {
    async check(subject) {
      const { ref } = await commandable(subject)
      const line = 'x'.repeat(100_000)
      const write = 'IFS= read -r line && printf "%s" "$line" >"$PF_SHARED_CONTENT_FOLDER/line"'
      const input = `${line}\n`
      assert.equal((await exec(subject, ref, ['sh', '-c', write], { input })).exitCode, 0)
      await subject.reopen()
      const { output } = await exec(subject, ref, ['sh', '-c', 'wc -c <"$PF_SHARED_CONTENT_FOLDER/line"'])
      assert.equal(output.trim(), String(line.length))
    },
  },

  'exec: of what a command prints, the end is kept, and one that prints without an end is given up': {
    async check(subject) {
      const { ref } = await commandable(subject)
      const { output } = await exec(subject, ref, ['sh', '-c', 'seq 50000; echo the end'])
      assert.match(output, /\n50000\nthe end\n$/)
      assert.ok(Buffer.byteLength(output) <= 512, `${Buffer.byteLength(output)} bytes are kept`)
      await rejectsWith('invalid', exec(subject, ref, ['yes']))
    },
  },

  'exec: settles after its signal, with aborted or once the command has ended': {
    async check(subject) {
      const { ref } = await commandable(subject)
      const stop = new AbortController()
      const script = ': >"$PF_SHARED_CONTENT_FOLDER/begun"; sleep 2; exit 4'
      const outcome = exec(subject, ref, ['sh', '-c', script], { signal: stop.signal }).then(
        ({ exitCode }) => exitCode,
        (error: unknown) => FleetError.is(error) && error.code,
      )
      await subject.eventually('the command has begun', async () => {
        const { exitCode } = await exec(subject, ref, ['sh', '-c', '[ -e "$PF_SHARED_CONTENT_FOLDER/begun" ]'])
        return exitCode === 0 || undefined
      })
      stop.abort()
      assert.ok(['aborted', 4].includes((await outcome) || ''), `it ended with ${await outcome}`)
      await rejectsWith('aborted', exec(subject, ref, ['sh', '-c', ':'], { signal: stop.signal }))
    },
  },

  'exec: rejects with not-found without an instance, and once its game has ended': {
    async check(subject) {
      const spec = subject.spec('exits-0')
      await rejectsWith('not-found', exec(subject, spec.ref, ['sh', '-c', ':']))
      await subject.backend.create(spec)
      await subject.inPhase(spec, 'exited')
      await rejectsWith('not-found', exec(subject, spec.ref, ['sh', '-c', ':']))
    },
  },
})

async function exec({ backend }: Subject, ref: Ref, command: readonly string[], options?: ExecOptions) {
  assert.ok(backend.exec, 'the backend has no exec')
  return backend.exec(ref, command, options)
}

/** An instance in which commands can be run, a moment after it is reported as running. */
async function commandable(subject: Subject): Promise<InstanceSpec> {
  const spec = subject.spec('runs')
  await subject.running(spec)
  await subject.eventually('a command can be run', async () => {
    const first = await exec(subject, spec.ref, ['sh', '-c', ':']).catch(() => undefined)
    return first?.exitCode === 0 || undefined
  })
  return spec
}

// Destroy. The order is the signal at once, then the whole grace period, then the kill.

export const destroyCases = backendCases({
  'destroy: removes the instance from the list': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.running(spec)
      await subject.inTime('destroy of a program that terminates', destroyWithLongGrace())
      assert.deepEqual(await subject.backend.list(), [])

      function destroyWithLongGrace() {
        return subject.backend.destroy(spec.ref, spec.uid, { graceMs: 10 * subject.timeoutMs })
      }
    },
  },

  'destroy: succeeds if the instance does not exist': {
    async check(subject) {
      const spec = subject.spec('runs')
      await subject.destroyNow(spec)
      await subject.running(spec)
      await subject.destroyNow(spec)
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: does not affect an instance with another uid': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await subject.backend.destroy(spec.ref, subject.spec('runs').uid, { graceMs: 0 })
      assert.deepEqual(await subject.backend.list(), [before])
    },
  },

  'destroy: concurrent calls for one instance affect only that instance': {
    async check(subject) {
      const spec = subject.spec('runs')
      const other = subject.spec('runs')
      await Promise.all([subject.running(spec), subject.running(other)])
      await Promise.all(Array.from({ length: 5 }, () => subject.destroyNow(spec)))
      assert.equal(await subject.find(spec), undefined)
      assert.equal((await subject.find(other))?.phase, 'running')
    },
  },

  'destroy: kills a program that ignores termination after the grace period, not before': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      const startedAt = performance.now()
      const { graceMs } = subject
      const done = subject.backend.destroy(spec.ref, spec.uid, { graceMs })
      await subject.inTime('destroy of a program that ignores termination', done)
      // Timers may fire slightly early, but never by 10 %.
      assert.ok(
        performance.now() - startedAt >= graceMs * 0.9,
        `it was killed before the grace period of ${graceMs} ms`,
      )
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: sends the termination signal at once, and kills only after the whole grace period': {
    async check(subject) {
      const spec = await subject.ignoringTerminate()
      const startedAt = performance.now()
      const destroyed = subject.destroyWithLongGrace(spec)
      await subject.programSignalled(spec)
      const signalledMs = performance.now() - startedAt
      const { longGraceMs } = subject
      assert.ok(signalledMs < longGraceMs * 0.8, `the signal came ${signalledMs} ms after the call`)
      assert.equal(await subject.inTime('destroy of a program that ignores termination', destroyed), undefined)
      assert.ok(performance.now() - startedAt >= longGraceMs * 0.9, 'it was killed before its grace period was over')
    },
  },

  'destroy: kills at once without a grace period': {
    async check(subject) {
      const spec = subject.spec('ignores-terminate')
      await subject.programUp(await subject.running(spec))
      await subject.inTime('destroy without a grace period', subject.destroyNow(spec))
      assert.deepEqual(await subject.backend.list(), [])
    },
  },

  'destroy: repeated after a concurrent create, leaves no instance behind': {
    async check(subject) {
      const spec = subject.spec('runs')
      await Promise.allSettled([subject.backend.create(spec), subject.destroyNow(spec)])
      await subject.destroyNow(spec)
      assert.deepEqual(await subject.backend.list(), [])
      await subject.running(subject.spec('runs', { name: spec.ref.name }))
    },
  },

  'close: sends the termination signal to every instance that destroy was called for': {
    async check(subject) {
      const specs = await Promise.all(Array.from({ length: 3 }, () => subject.ignoringTerminate()))
      for (const spec of specs) void subject.destroyWithLongGrace(spec)
      await subject.reopen()
      await Promise.all(specs.map((spec) => subject.programSignalled(spec)))
    },
  },

  'close: does not terminate other instances': {
    async check(subject) {
      const [ending, other] = await Promise.all([subject.ignoringTerminate(), subject.running(subject.spec('runs'))])
      void subject.destroyWithLongGrace(ending)
      await subject.reopen()
      await subject.programSignalled(ending)
      const listed = (await subject.backend.list()).find(({ uid }) => uid === other.uid)
      assert.equal(listed?.phase, 'running')
    },
  },
})

// Instances survive a host restart.

export const restartCases = backendCases({
  'restart: instances keep running after close, and the next backend lists them unchanged': {
    async check(subject) {
      const specs = Array.from({ length: 3 }, () => subject.spec('runs', { portsToExpose: [7777, 7778] }))
      const before = await Promise.all(specs.map((spec) => subject.running(spec)))
      await subject.reopen()
      for (const instance of before) {
        const after = (await subject.backend.list()).find(({ uid }) => uid === instance.uid)
        assert.deepEqual(after && { ...after }, { ...instance })
      }
      assert.equal((await subject.backend.list()).length, before.length)
    },
  },

  'restart: create returns the existing instance of an earlier backend': {
    async check(subject) {
      const spec = subject.spec('runs')
      const before = await subject.running(spec)
      await subject.reopen()
      const again = await subject.backend.create(spec)
      assert.deepEqual(again.ports, before.ports)
      assert.equal((await subject.backend.list()).length, 1)
      await rejectsWith('conflict', subject.backend.create(subject.spec('runs', { name: spec.ref.name })))
    },
  },

  'restart: keeps exit codes': {
    async check(subject) {
      const spec = subject.spec('exits-3')
      await subject.backend.create(spec)
      await subject.inPhase(spec, 'exited')
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 3)
    },
  },

  'restart: detects an exit during or after it, with its code': {
    async check(subject) {
      const spec = subject.spec('exits-5-late')
      await subject.backend.create(spec)
      await subject.reopen()
      assert.equal((await subject.inPhase(spec, 'exited')).exitCode, 5)
    },
  },

  'restart: destroys instances of an earlier backend': {
    async check(subject) {
      const terminates = subject.spec('runs')
      const ignoresTerminate = subject.spec('ignores-terminate')
      await Promise.all([subject.running(terminates), subject.running(ignoresTerminate)])
      await subject.reopen()
      const received = await subject.watch()
      const destroy = (spec: typeof terminates, graceMs: number) =>
        subject.inTime('destroy', subject.backend.destroy(spec.ref, spec.uid, { graceMs }))
      await Promise.all([destroy(terminates, 10 * subject.timeoutMs), destroy(ignoresTerminate, 0)])
      assert.deepEqual(await subject.backend.list(), [])
      await subject.eventually('the new listener receives both deletions', () => {
        const gone = new Set(received.gone.map(({ uid }) => uid))
        return (gone.has(terminates.uid) && gone.has(ignoresTerminate.uid)) || received.resyncs > 0 || undefined
      })
    },
  },

  'restart: keeps public ports in use until their instance is destroyed': {
    publicPorts: 2,
    async check(subject) {
      const first = subject.spec('runs')
      const second = subject.spec('runs')
      await Promise.all([subject.running(first), subject.running(second)])
      await subject.reopen()
      await rejectsWith('ports-exhausted', subject.backend.create(subject.spec('runs')))
      await subject.destroyNow(first)
      const third = await subject.running(subject.spec('runs'))
      const held = (await subject.backend.list()).flatMap(({ ports }) => ports.map((port) => port.public))
      assert.equal(new Set(held).size, 2)
      assert.equal(third.ports.length, 1)
    },
  },
})
