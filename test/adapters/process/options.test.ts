import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { processBackend, type ProcessBackendOptions } from '../../../adapters/process/index.js'
import { resolveProcessOptions } from '../../../adapters/process/options.js'

test('the defaults match the documentation', () => {
  const { logger: _, clock: __, ...options } = resolveProcessOptions({})
  expect(options).toEqual({
    directory: resolve('.gamekeeper'),
    publicAddress: '127.0.0.1',
    platform: {},
    node: hostname(),
    portRange: { first: 10_000, last: 12_000 },
    inheritEnv: [],
    isolation: 'none',
    readOnlyPaths: [],
    runAs: undefined,
    userIDs: { first: 2_000_000_000, last: 2_000_009_999 },
    limits: {},
    logMaxBytes: 10 * 1024 * 1024,
    logRetentionMs: 24 * 60 * 60 * 1000,
    maxLogFiles: 1000,
    pollIntervalMs: 250,
    waitForDirectoryMs: 0,
    development: undefined,
  })
})

test('the backend declares its capabilities and its default store', () => {
  const backend = processBackend({ directory: '/srv/some-fleet' })
  expect(backend.name).toBe('process')
  expect(backend.capabilities).toEqual({ template: expect.stringMatching(/^process(-memory)?$/), agent: true })
  expect(backend.defaultStore).toEqual({
    kind: 'file',
    directory: '/srv/some-fleet/store',
    waitForDirectoryMs: 0,
  })
})

test.each<[object, RegExp]>([
  [{ directory: '' }, /^processBackend: directory must be a non-empty string/],
  [{ publicAddress: 7 }, /^processBackend: publicAddress must be a non-empty string, but is 7$/],
  [{ node: ' ' }, /^processBackend: node must/],
  [{ portRange: '10-5' }, /^processBackend: portRange must be two ports/],
  [{ portRange: { first: 0, last: 5 } }, /^processBackend: portRange must be \{ first, last \}/],
  [{ portRange: { first: 9, last: 5 } }, /^processBackend: portRange/],
  [{ inheritEnv: 'PATH' }, /^processBackend: inheritEnv must be an array/],
  [{ logMaxBytes: 10 }, /^processBackend: logMaxBytes must be an integer ≥ 1024, but is 10$/],
  [{ logRetentionMs: -1 }, /^processBackend: logRetentionMs must be an integer ≥ 0/],
  [{ maxLogFiles: 1.5 }, /^processBackend: maxLogFiles/],
  [{ pollIntervalMs: 0 }, /^processBackend: pollIntervalMs must be an integer ≥ 1/],
  [{ isolation: 'chroot' }, /^processBackend: isolation must be none or user or systemd, but is "chroot"$/],
  [{ readOnlyPaths: ['games'], isolation: 'systemd' }, /^processBackend: readOnlyPaths must be an array of absolute/],
  [{ readOnlyPaths: ['/srv/games'] }, /^processBackend: readOnlyPaths needs isolation 'systemd'/],
  [
    { development: true, isolation: 'systemd' },
    /^processBackend: development must be left out with isolation 'systemd'/,
  ],
  [{ runAs: 'games' }, /^processBackend: runAs must be \{ user, group \}/],
  [{ runAs: { user: -1 } }, /^processBackend: runAs must be \{ user, group \}/],
  [{ runAs: { user: 'games' }, isolation: 'user' }, /^processBackend: runAs must be left out with isolation 'user'/],
  [{ userIDs: { first: 0, last: 5 } }, /^processBackend: userIDs must be \{ first, last \}/],
  [{ limits: { cpu: 1 } }, /^processBackend: limits must be \{ memoryBytes, tasks, openFiles \}, but is "cpu"$/],
  [{ limits: { openFiles: 0 } }, /^processBackend: limits\.openFiles must be an integer ≥ 1/],
  [{ portrange: '1-2' }, /^processBackend: unknown option portrange; did you mean portRange\?$/],
])('%j is rejected, naming the option', (options, message) => {
  const wrong: ProcessBackendOptions = options
  expect(() => processBackend(wrong)).toThrow(
    expect.objectContaining({ code: 'invalid', message: expect.stringMatching(message) }),
  )
})
