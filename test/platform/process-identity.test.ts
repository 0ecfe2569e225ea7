import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { currentProcess, isAlive, processIdentity } from '../../src/platform/process-identity.js'

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
})

function start(command: string, args: readonly string[]) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  cleanups.push(() => void child.kill('SIGKILL'))
  if (child.pid === undefined) throw new Error(`${command} did not start`)
  return { child, pid: child.pid }
}

test('this process is alive, and its identity is constant', () => {
  expect(currentProcess().pid).toBe(process.pid)
  expect(currentProcess()).toEqual(currentProcess())
  expect(isAlive(currentProcess())).toBe(true)
})

test('the same pid with another start time is another process', () => {
  expect(isAlive({ ...currentProcess(), startedAt: 'long ago' })).toBe(false)
})

test('a process that has exited is not alive', async () => {
  const { child, pid } = start('sleep', ['60'])
  const identity = processIdentity(pid)
  expect(identity && isAlive(identity)).toBe(true)
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(identity && isAlive(identity)).toBe(false)
  expect(processIdentity(pid)).toBeUndefined()
})

test('a zombie counts as dead', async () => {
  // The shell turns into a sleep, which never reaps its child.
  const { child } = start('sh', ['-c', 'true & echo $!; exec sleep 60'])
  const [line] = await once(child.stdout, 'data')
  const pid = Number(String(line))
  await expect.poll(() => processIdentity(pid), { timeout: 60_000 }).toBeUndefined()
})

test('a command name may contain brackets and spaces', () => {
  const directory = mkdtempSync(join(tmpdir(), 'gamekeeper-identity-'))
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }))
  const odd = join(directory, 'a) Z 1 (b')
  copyFileSync('/bin/sleep', odd)
  const { pid } = start(odd, ['60'])
  const identity = processIdentity(pid)
  expect(identity && isAlive(identity)).toBe(true)
})

test.each([0, -1, 1.5, Number.NaN])('%s is not a process', (pid) => {
  expect(processIdentity(pid)).toBeUndefined()
})
