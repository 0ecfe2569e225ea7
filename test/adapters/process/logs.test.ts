import { appendFileSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import type { Backend, InstanceSpec, LogsOptions } from '../../../src/contracts/backend.js'
import { type Clock, systemClock } from '../../../src/contracts/clock.js'
import { readLog, trimToTail } from '../../../adapters/process/files/logs.js'
import { maxLineBytes } from '../../../adapters/shared/line-splitter.js'
import { cleanUp, contentOf, exited, freshDirectory, gameOf, open, specOf, until } from './support.js'

afterEach(cleanUp)

test('a log over its size limit keeps its last lines while the game keeps writing', async () => {
  const directory = freshDirectory()
  const log = join(directory, 'logs', 'default.arena-aaaaa.log')
  const backend = open(directory, { logMaxBytes: 64 * 1024 })
  // 60 lines of 1 KiB each 50 ms, numbered.
  await backend.create(
    gameOf(`let n = 0; setInterval(() => { let s = ''; for (let i = 0; i < 60; i++) s += ++n + ' ' + 'x'.repeat(1000) + '\\n';
      require('fs').writeSync(1, s) }, 50)`),
  )
  await until('the log was cut', () => contentOf(log)?.startsWith('[gamekeeper:'))
  const lines = () => readFileSync(log, 'utf8').split('\n').slice(1, -1)
  const first = Number(lines()[0]?.split(' ')[0])
  const numbers = lines().map((line) => Number(line.split(' ')[0]))
  expect(numbers).toEqual(numbers.map((_, i) => first + i))
  await until('the game keeps writing', () => Number(lines().at(-1)?.split(' ')[0]) > (numbers.at(-1) ?? 0))
})

test('a log is also truncated after the game has exited', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { logMaxBytes: 2_048 })
  const spec = specOf(['sh', '-c', 'i=0; while [ $i -lt 999 ]; do echo "line $i"; i=$((i+1)); done'])
  await backend.create(spec)
  await exited(backend)
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  const log = join(directory, 'logs', 'default.arena-aaaaa.log')
  expect(statSync(log).size).toBeLessThanOrEqual(2_048)
  expect(readFileSync(log, 'utf8')).toMatch(/\nline 998\n$/)
})

test('when there are too many logs, those of removed servers are deleted, oldest first', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { maxLogFiles: 2 })
  await backend.create(specOf(['sleep', '600'], { name: 'arena-live' }))
  for (const [age, name] of ['arena-new', 'arena-old', 'arena-older'].entries()) {
    const path = join(directory, 'logs', `default.${name}.log`)
    writeFileSync(path, name)
    utimesSync(path, new Date(), new Date(Date.now() - 1_000 * (age + 1)))
  }
  await until('the oldest is removed', () => readdirSync(join(directory, 'logs')).length === 3)
  expect(readdirSync(join(directory, 'logs')).sort()).toEqual(
    ['arena-live', 'arena-new', 'arena-old'].map((name) => `default.${name}.log`),
  )
})

test('a log is kept for the retention period after its server exits, regardless of when its last line was written', async () => {
  const directory = freshDirectory()
  const backend = open(directory, { logRetentionMs: 1_500 })
  const spec = specOf(['sh', '-c', 'echo hello; exec sleep 600'])
  await backend.create(spec)
  const log = join(directory, 'logs', 'default.arena-aaaaa.log')
  await until('it was written', () => contentOf(log) === 'hello\n')
  utimesSync(log, new Date(0), new Date(0))
  const before = Date.now()
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  await until('it is removed', () => contentOf(log) === undefined)
  expect(Date.now() - before).toBeGreaterThanOrEqual(1_400)
})

test('a log within its size limit is not changed', () => {
  const path = join(freshDirectory(), 'a.log')
  writeFileSync(path, 'short\n')
  trimToTail(path, 1_024)
  expect(readFileSync(path, 'utf8')).toBe('short\n')
})

test('a log that is one very long line is read in pieces of a bounded length', async () => {
  const backend = open(freshDirectory(), { logMaxBytes: 64 * 1024 * 1024 })
  const bytes = 8 * 1024 * 1024
  const spec = specOf(['sh', '-c', `head -c ${bytes} /dev/zero | tr '\\0' x; echo; echo end; printf 'no newline'`])
  await backend.create(spec)
  await exited(backend)
  for (const options of [{}, { follow: true }]) {
    const lines = await linesOf(backend, spec, options)
    expect(lines.slice(-2)).toEqual(['end', 'no newline'])
    expect(lines.slice(0, -2).join('')).toBe('x'.repeat(bytes))
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(maxLineBytes)
  }
  expect(await linesOf(backend, spec, { tail: 2 })).toEqual(['end', 'no newline'])
  expect((await linesOf(backend, spec, { tail: 3 }))[0]).toMatch(/^x+$/)
})

test('a last line without a newline counts as one of the last lines', async () => {
  const backend = open(freshDirectory())
  const spec = specOf(['sh', '-c', `printf 'one\ntwo\nthree'`])
  await backend.create(spec)
  await exited(backend)
  const read = (options: LogsOptions) => linesOf(backend, spec, options)
  for (const follow of [false, true]) {
    expect(await read({ follow, tail: 0 })).toEqual([])
    expect(await read({ follow, tail: 1 })).toEqual(['three'])
    expect(await read({ follow, tail: 2 })).toEqual(['two', 'three'])
    expect(await read({ follow, tail: 9 })).toEqual(['one', 'two', 'three'])
  }
})

test('a last line that is still being written is followed as a whole', async () => {
  const path = join(freshDirectory(), 'game.log')
  writeFileSync(path, 'one\ntw')
  let isGrowing = true
  const follow = (tail: number) => {
    let lines: Promise<readonly string[]> = Promise.resolve([])
    const waits = new Promise<void>((resolve) => {
      // A follower waits once it has read what there is.
      const after: Clock['after'] = (ms, fn) => {
        resolve()
        return systemClock.after(ms, fn)
      }
      const source = { path, server: 'arena-aaaaa', isGrowing: () => isGrowing, clock: { ...systemClock, after } }
      lines = collected(readLog(source, { follow: true, tail }))
    })
    return { waits, lines }
  }
  const followers = [0, 1, 2].map(follow)
  await Promise.all(followers.map(({ waits }) => waits))
  appendFileSync(path, 'o\nthree\n')
  isGrowing = false
  expect(await Promise.all(followers.map(({ lines }) => lines))).toEqual([
    ['two', 'three'],
    ['two', 'three'],
    ['one', 'two', 'three'],
  ])
})

test('a log can be read completely, from its last lines, or followed until its game exits', async () => {
  const backend = open(freshDirectory())
  const go = join(freshDirectory(), 'go')
  const spec = specOf([
    'sh',
    '-c',
    `echo one; echo two >&2; until [ -e ${go} ]; do sleep 0.05; done; printf 'three\nrest'`,
  ])
  await backend.create(spec)
  const read = (options: LogsOptions) => linesOf(backend, spec, options)
  await vi.waitFor(async () => expect(await read({})).toEqual(['one', 'two']), 60_000)
  expect(await read({ tail: 1 })).toEqual(['two'])
  expect(await read({ tail: 0 })).toEqual([])
  const stop = new AbortController()
  const cut = read({ follow: true, signal: stop.signal })
  const followed = read({ follow: true, tail: 1 })
  stop.abort()
  expect((await cut).length).toBeLessThanOrEqual(2)
  writeFileSync(go, '')
  expect(await followed).toEqual(['two', 'three', 'rest'])
  await backend.destroy(spec.ref, spec.uid, { graceMs: 0 })
  expect(await read({ follow: true })).toEqual(['one', 'two', 'three', 'rest'])
})

test('following a log continues after it was truncated', async () => {
  const backend = open(freshDirectory(), { logMaxBytes: 64 * 1024 })
  await backend.create(
    gameOf(`let n = 0; setInterval(() => { let s = ''; for (let i = 0; i < 60; i++) s += ++n + ' ' + 'x'.repeat(1000) + '\\n';
      require('fs').writeSync(1, s) }, 50)`),
  )
  const stop = new AbortController()
  let cut = false
  for await (const line of backend.logs?.(gameOf('').ref, { follow: true, signal: stop.signal }) ?? []) {
    if (line.startsWith('[gamekeeper:')) cut = true
    if (cut && /^\d+ x+$/.test(line)) stop.abort()
  }
  expect(cut).toBe(true)
})

test('reading the log of an unknown server fails with not-found', async () => {
  const backend = open(freshDirectory())
  await expect(linesOf(backend, specOf(['true']), {})).rejects.toMatchObject({ code: 'not-found' })
})

async function linesOf(backend: Backend, spec: InstanceSpec, options: LogsOptions): Promise<readonly string[]> {
  return collected(backend.logs?.(spec.ref, options) ?? [])
}

async function collected(log: AsyncIterable<string> | readonly string[]): Promise<readonly string[]> {
  const lines: string[] = []
  for await (const line of log) lines.push(line)
  return lines
}
