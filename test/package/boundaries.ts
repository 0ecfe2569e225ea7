/** The layers from docs/architecture.md as a table: which part of gamekeeper may import which. Analyzes source text only. */
import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import ts from 'typescript'

interface Layer {
  readonly name: string
  /** Files, and folders with a trailing slash. `*` matches any one folder; folders that match it must not import each other. */
  readonly paths: readonly string[]
  /** Layers that this layer may import in addition to its own files. */
  readonly layers: readonly string[]
  /** Packages that this layer may import. `node:` allows all builtins; a single builtin can be named instead. */
  readonly packages: readonly string[]
}

const ports = ['rules', 'cron', 'contracts', 'util']
const belowFleet = [...ports, 'platform', 'engine', 'stores', 'probes', 'agent', 'facade', 'internals', 'fleet']
const aboveFleet = [...ports, 'platform', 'facade', 'config', 'index', 'http', 'dashboard', 'metrics', 'adapters']

/** Packages that the examples with a web framework may import. */
const hosts: Readonly<Record<string, readonly string[]>> = {
  express: ['express'],
  fastify: ['fastify'],
  hono: ['hono', '@hono/node-server'],
  koa: ['koa', 'koa-bodyparser'],
  nestjs: [
    '@nestjs/common',
    '@nestjs/core',
    '@nestjs/platform-express',
    '@nestjs/platform-fastify',
    'reflect-metadata',
  ],
}

const layers: readonly Layer[] = [
  // Before the room around it, whose path begins as this one does.
  { name: 'cron', paths: ['src/rules/scaling/windows.ts'], layers: [], packages: ['croner'] },
  { name: 'rules', paths: ['src/rules/'], layers: ['cron'], packages: [] },
  { name: 'facade', paths: ['src/contracts/fleet.ts'], layers: ports, packages: [] },
  { name: 'contracts', paths: ['src/contracts/'], layers: ['rules'], packages: ['node:crypto'] },
  { name: 'util', paths: ['src/util/'], layers: ['contracts'], packages: [] },
  { name: 'platform', paths: ['src/platform/'], layers: ports, packages: ['node:'] },
  { name: 'engine', paths: ['src/engine/'], layers: ports, packages: ['node:crypto'] },
  { name: 'stores', paths: ['src/stores/'], layers: [...ports, 'platform'], packages: ['lmdb', 'node:'] },
  { name: 'probes', paths: ['src/probes/'], layers: [...ports, 'platform'], packages: ['node:'] },
  { name: 'agent', paths: ['src/agent/'], layers: [...ports, 'platform'], packages: ['node:'] },
  { name: 'internals', paths: ['src/fleet/internals.ts'], layers: ['contracts'], packages: [] },
  { name: 'fleet', paths: ['src/fleet/'], layers: belowFleet, packages: ['node:', 'eventemitter3'] },
  { name: 'operations', paths: ['src/http/operations.ts'], layers: [], packages: [] },
  {
    name: 'http',
    paths: ['src/http/'],
    layers: [...ports, 'operations', 'platform', 'agent', 'facade', 'internals'],
    packages: ['node:'],
  },
  // Before the room around it, whose path begins as this one does. Runs in browsers; what the client has runs there, too.
  {
    name: 'dashboard/page',
    paths: ['src/dashboard/page/'],
    layers: ['rules', 'contracts', 'facade', 'client', 'operations'],
    packages: ['preact', '@preact/signals', 'uplot'],
  },
  {
    name: 'dashboard',
    paths: ['src/dashboard/'],
    layers: [...ports, 'platform', 'facade', 'http', 'operations'],
    packages: ['node:'],
  },
  { name: 'client', paths: ['src/client/'], layers: ['rules', 'contracts', 'facade', 'operations'], packages: [] },
  {
    name: 'metrics',
    paths: ['src/metrics/'],
    layers: [...ports, 'platform', 'facade', 'internals'],
    packages: ['node:'],
  },
  {
    name: 'tracing',
    paths: ['src/tracing/'],
    layers: [...ports, 'platform', 'facade', 'internals'],
    packages: [],
  },
  { name: 'sdk', paths: ['src/sdk/'], layers: ['rules', 'contracts'], packages: ['node:'] },
  {
    name: 'testing',
    paths: ['src/testing/'],
    layers: [...ports, 'facade', 'fleet', 'stores', 'adapters'],
    packages: ['node:'],
  },
  { name: 'config', paths: ['src/config/'], layers: ports, packages: [] },
  { name: 'index', paths: ['src/index.ts'], layers: [...belowFleet, 'config'], packages: [] },
  { name: 'server', paths: ['src/server/'], layers: aboveFleet, packages: ['node:'] },
  {
    name: 'cli',
    paths: ['src/cli/'],
    layers: [...aboveFleet, 'client', 'server', 'testing'],
    packages: ['node:', 'commander', 'yaml'],
  },
  { name: 'adapters/shared', paths: ['adapters/shared/'], layers: [...ports, 'platform'], packages: ['node:'] },
  {
    name: 'adapters',
    paths: ['adapters/*/'],
    layers: [...ports, 'platform', 'adapters/shared'],
    packages: ['dockerode', 'node:'],
  },
  ...Object.entries(hosts).map(([name, packages]) => ({
    name: `examples/${name}`,
    paths: [`examples/${name}/`],
    layers: [],
    packages: ['gamekeeper', 'node:', ...packages],
  })),
  { name: 'examples', paths: ['examples/*/'], layers: [], packages: ['gamekeeper', 'node:'] },
]

/**
 * By folder, the order of what is in it, as docs/architecture.md has it: each folder or file may import those before it. So there are no
 * circles between them.
 */
export const orders: Readonly<Record<string, readonly string[]>> = {
  'src/http/': [
    'operations.ts',
    'core',
    'access',
    'openapi',
    'route-binding.ts',
    'forwarding.ts',
    'api',
    'grpc',
    'mounts.ts',
    'webhooks.ts',
    'serve.ts',
    'index.ts',
  ],
  'src/engine/': [
    'state',
    'responsive-clock.ts',
    'ended-sessions.ts',
    'outbox.ts',
    'context.ts',
    'persistence',
    'reporting',
    'allocation',
    'builds',
    'seats',
    'instances',
    'reconcile',
    'change-handlers.ts',
    'server-adoption.ts',
    'self-allocation.ts',
    'wiring.ts',
    'engine.ts',
  ],
  'adapters/kubernetes/': [
    'client',
    'nodes',
    'pods',
    'provisioning',
    'leader-election',
    'store',
    'options.ts',
    'instances.ts',
    'backend.ts',
    'index.ts',
  ],
  'adapters/kubernetes/store/': [
    'custom-collection.ts',
    'kube-events.ts',
    'server-object.ts',
    'fleet-key.ts',
    'fleet-home.ts',
    'build-object.ts',
    'build-collection.ts',
    'journal',
    'server-collection.ts',
    'demand-collection.ts',
    'display.ts',
    'requested-allocations.ts',
    'store.ts',
  ],
}

/** Describes each import in `text`, the source of `file`, that points upwards in the order of a folder. */
export function upwardImports(file: string, text: string): readonly string[] {
  return Object.entries(orders).flatMap(([folder, order]) => {
    const placeIn = (path: string) => path.slice(folder.length).split('/')[0] ?? ''
    if (!file.startsWith(folder)) return []
    const home = placeIn(file)
    if (!order.includes(home))
      return [`${folder}${home} has no place in the order of ${folder}; see test/package/boundaries.ts`]
    return importsOf(text).flatMap((specifier) => {
      const target = targetOf(file, specifier)
      if (!target?.startsWith(folder) || order.indexOf(placeIn(target)) <= order.indexOf(home)) return []
      return [`${file} may not import ${specifier}: in ${folder}, ${home} is below ${placeIn(target)}`]
    })
  })
}

/** Describes each forbidden import, including type-only ones, in `text`, the source of `file`. */
export function breaches(file: string, text: string): readonly string[] {
  const home = placeOf(file)
  if (home === undefined) return [`${file} belongs to no layer; add one in test/package/boundaries.ts`]
  return importsOf(text).flatMap((specifier) =>
    mayImport(home, file, specifier) ? [] : [`${file} may not import ${specifier} (${allowance(home.layer)})`],
  )
}

interface Place {
  readonly layer: Layer
  /** The matching path from the table, with `*` replaced by the actual folder. */
  readonly path: string
}

function placeOf(file: string): Place | undefined {
  for (const layer of layers) {
    for (const pattern of layer.paths) {
      const path = pattern.replace('*', file.split('/')[1] ?? '')
      if (path.endsWith('/') ? file.startsWith(path) : file === path) return { layer, path }
    }
  }
  return undefined
}

function importsOf(text: string): readonly string[] {
  return ts.preProcessFile(text, true, true).importedFiles.map((imported) => imported.fileName)
}

/** The file that a relative import names. Undefined for a package. */
function targetOf(file: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined
  return posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts')
}

function mayImport(home: Place, file: string, specifier: string): boolean {
  if (!specifier.startsWith('.')) return mayImportPackage(home.layer, specifier)
  const target = placeOf(targetOf(file, specifier) ?? '')
  if (target === undefined) return false
  if (target.layer.name !== home.layer.name) return home.layer.layers.includes(target.layer.name)
  return !home.layer.paths.some((path) => path.includes('*')) || target.path === home.path
}

function mayImportPackage(layer: Layer, specifier: string): boolean {
  if (builtinModules.includes(specifier)) return false // written without `node:`
  if (specifier.startsWith('node:')) return layer.packages.some((name) => name === 'node:' || name === specifier)
  return layer.packages.some((name) => specifier === name || specifier.startsWith(`${name}/`))
}

function allowance(layer: Layer): string {
  return `${layer.name} may import ${['its own files', ...layer.layers, ...layer.packages].join(', ')}`
}

/**
 * Finds `new Date()` without arguments and calls of `Date()`, which read the time without the Clock. The linter finds the other
 * ways of doing so (.oxlintrc.json).
 */
export function clockReads(file: string, text: string): readonly string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (makesDateOfNow(node, source)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source))
      found.push(`${file}:${line + 1} reads the time; use the Clock`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** `Date(…)` always reads the time, since it ignores its arguments. `new Date(value)` does not. */
function makesDateOfNow(node: ts.Node, source: ts.SourceFile): boolean {
  if (ts.isCallExpression(node)) return node.expression.getText(source) === 'Date'
  if (!ts.isNewExpression(node)) return false
  return node.expression.getText(source) === 'Date' && (node.arguments ?? []).length === 0
}
