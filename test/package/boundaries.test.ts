/** Checks the imports of every source file against the layers. */
import { describe, expect, it } from 'vitest'
import { breaches, clockReads, orders, upwardImports } from './boundaries.js'
import { filesUnder, read } from './sources.js'

const sources = filesUnder('src', 'adapters', 'examples').filter((file) => /\.[cm]?[jt]sx?$/.test(file))

/** True for files that may use real time: the clock, the SDK, the client, real processes, and the suite for real engines. */
const ownsTime = (file: string) =>
  [
    'src/contracts/clock.ts',
    'src/sdk/',
    'src/client/',
    'src/dashboard/page/',
    'src/server/',
    'src/cli/',
    'src/testing/backend-',
    'adapters/process/',
    'examples/',
  ].some((path) => file.startsWith(path))

describe('imports', () => {
  it('follow the layers', () => {
    expect(sources.length).toBeGreaterThan(0)
    expect(sources.flatMap((file) => breaches(file, read(file)))).toEqual([])
  })

  it.each([
    ['src/rules/x.ts', `import { y } from '../engine/y.js'`],
    ['src/rules/x.ts', `import type { Clock } from '../contracts/clock.js'`],
    ['src/rules/x.ts', `import { readFile } from 'node:fs/promises'`],
    ['src/contracts/store.ts', `import { Reconciler } from '../engine/reconcile/reconciler.js'`],
    ['src/engine/x.ts', `export * from '../contracts/fleet.js'`],
    ['src/engine/x.ts', `import { open } from 'lmdb'`],
    ['src/agent/x.ts', `import type { Heartbeats } from '../engine/instances/heartbeats.js'`],
    ['src/probes/x.ts', `import { Engine } from '../engine/engine.js'`],
    ['src/engine/x.ts', `import { openProber } from '../probes/network-prober.js'`],
    ['src/stores/x.ts', `import type { Fleet } from '../contracts/fleet.js'`],
    ['src/contracts/fleet.ts', `import type { Engine } from '../engine/engine.js'`],
    ['src/http/route-binding.ts', `import { Hono } from 'hono'`],
    ['src/fleet/create-fleet.ts', `import { memoryBackend } from '../../adapters/memory/index.js'`],
    ['src/http/x.ts', `import { Allocator } from '../engine/allocation/allocator.js'`],
    ['src/sdk/x.ts', `import type { Engine } from '../engine/engine.js'`],
    ['src/client/x.ts', `import { createHash } from 'node:crypto'`],
    ['src/dashboard/page/x.tsx', `import { createHash } from 'node:crypto'`],
    ['src/dashboard/page/x.tsx', `import { serve } from '../../http/index.js'`],
    ['src/dashboard/x.ts', `import { render } from 'preact'`],
    ['src/http/x.ts', `import { dashboardPage } from '../dashboard/index.js'`],
    ['src/client/x.ts', `import { nodeHandler } from '../http/core/node.js'`],
    ['src/index.ts', `export { managementRoutes } from './http/index.js'`],
    ['src/server/x.ts', `import { program } from '../cli/program.js'`],
    ['src/cli/x.ts', `import { Engine } from '../engine/engine.js'`],
    ['src/http/x.ts', `import { runServer } from '../server/run-server.js'`],
    ['src/testing/x.ts', `const engine = await import('../engine/engine.js')`],
    ['adapters/memory/x.ts', `import { y } from '../process/y.js'`],
    ['adapters/memory/x.ts', `type Y = import('../../src/engine/y.js').Y`],
    ['adapters/process/x.ts', `import type { Fleet } from '../../src/contracts/fleet.js'`],
    ['examples/express/x.ts', `import { createFleet } from '../../src/index.js'`],
    ['examples/express/x.ts', `import { y } from '../game-server/y.js'`],
    ['examples/koa/x.ts', `const express = require('express')`],
    ['examples/koa/x.ts', `import express from 'express'`],
    ['src/stores/x.ts', `import { readFile } from 'fs/promises'`],
  ])('reject in %s: %s', (file, text) => {
    const specifier = /'([^']+)'/.exec(text)?.[1]
    expect(breaches(file, text)).toEqual([expect.stringContaining(`${file} may not import ${specifier} (`)])
  })

  it.each([
    ['src/rules/x.ts', `import { y } from './y.js'`],
    ['src/engine/x.ts', `import type { Build } from '../rules/model/resources.js'`],
    ['src/fleet/create-fleet.ts', `import { fileStore } from '../stores/file.js'`],
    ['src/probes/x.ts', `import type { Prober } from '../contracts/prober.js'`],
    ['src/http/core/x.ts', `import type { Socket } from 'node:net'`],
    ['adapters/memory/x.ts', `import { Listeners } from '../shared/listeners.js'`],
    ['adapters/memory/x.ts', `import { FleetError } from '../../src/contracts/errors.js'`],
    ['src/cli/x.ts', `import { Command } from 'commander'`],
    ['examples/express/x.ts', `import { memoryBackend } from 'gamekeeper/memory'`],
    ['examples/express/x.ts', `import express from 'express'`],
  ])('allow in %s: %s', (file, text) => {
    expect(breaches(file, text)).toEqual([])
  })

  it('are checked in every file, and a file without a layer is reported', () => {
    expect(breaches('src/new-thing.ts', '')).toEqual([expect.stringContaining('src/new-thing.ts belongs to no layer')])
  })
})

describe('imports between the folders of a folder', () => {
  it('follow its order, so that there are no circles', () => {
    for (const folder of Object.keys(orders)) expect(sources.some((file) => file.startsWith(folder))).toBe(true)
    expect(sources.flatMap((file) => upwardImports(file, read(file)))).toEqual([])
  })

  it.each([
    ['src/http/core/x.ts', `import { guard } from '../access/guard.js'`, 'in src/http/, core is below access'],
    [
      'src/http/operations.ts',
      `import type { Routes } from './route-binding.js'`,
      'operations.ts is below route-binding.ts',
    ],
    ['src/http/api/x.ts', `export { serve } from '../index.js'`, 'api is below index.ts'],
    ['adapters/kubernetes/client/x.ts', `import type { Names } from '../pods/x.js'`, 'client is below pods'],
    ['adapters/kubernetes/store/journal/x.ts', `import { X } from '../store.js'`, 'journal is below store.ts'],
    ['src/http/new/x.ts', '', 'src/http/new has no place in the order of src/http/'],
  ])('reject in %s: %s', (file, text, reason) => {
    expect(upwardImports(file, text)).toEqual([expect.stringContaining(reason)])
  })

  it.each([
    ['src/http/access/x.ts', `import type { Handler } from '../core/exchange.js'`],
    ['src/http/api/x.ts', `import { readJson } from './bodies.js'`],
    ['src/http/core/x.ts', `import type { Caller } from '../../contracts/audit.js'`],
    ['src/http/core/x.ts', `import type { Socket } from 'node:net'`],
  ])('allow in %s: %s', (file, text) => {
    expect(upwardImports(file, text)).toEqual([])
  })
})

describe('time', () => {
  it('is read from the Clock only', () => {
    const judged = sources.filter((file) => !ownsTime(file))
    expect(judged.flatMap((file) => clockReads(file, read(file)))).toEqual([])
  })

  it('is detected in Date() and new Date() without an argument', () => {
    const text = 'const a = new Date()\nconst b = Date()\nconst c = new Date(at).toISOString()\nconst d = new Date\n'
    expect(clockReads('src/x.ts', text).map((found) => found.split(' ')[0])).toEqual([
      'src/x.ts:1',
      'src/x.ts:2',
      'src/x.ts:4',
    ])
  })
})

/** Classes of the realm in which the code runs: what Node creates belongs to another one in a test runner such as Jest. */
function builtinInstances(file: string, text: string): readonly string[] {
  const names = [...text.matchAll(/\binstanceof (\w+)/g)].map(([, name = '']) => name)
  const isImported = (name: string) => new RegExp(`import [^;]*\\b${name}\\b[^;]*from`).test(text)
  return names.filter((name) => name in globalThis && !isImported(name)).map((name) => `${file}: instanceof ${name}`)
}

describe('built-ins', () => {
  it('are not recognized by instanceof', () => {
    const files = sources.filter((file) => /^(src|adapters)\//.test(file) && !file.startsWith('src/dashboard/page/'))
    expect(files.flatMap((file) => builtinInstances(file, read(file)))).toEqual([])
    expect(builtinInstances('x.ts', 'if (error instanceof Error) throw error')).toEqual(['x.ts: instanceof Error'])
  })
})
