/** Hosts of the process backend that a test can kill, and the records they leave. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ProcessBackendOptions } from '../../../adapters/process/index.js'
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { contentOf, numberIn, onCleanUp, until } from './support.js'

/** A process with the process backend, which creates these instances. */
export function startHost(
  directory: string,
  specs: readonly InstanceSpec[],
  atOnce = 1,
  options: ProcessBackendOptions = {},
): ChildProcess {
  const host = fileURLToPath(new URL('host.ts', import.meta.url))
  const args = ['--import', 'tsx', host, directory, JSON.stringify(specs), String(atOnce), JSON.stringify(options)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onCleanUp(() => void child.kill('SIGKILL'))
  return child
}

/** Creates one instance in a host that is then killed; returns the game's process id. */
export async function abandoned(
  directory: string,
  spec: InstanceSpec,
  pidPath: string,
  options: ProcessBackendOptions = {},
): Promise<number> {
  const host = startHost(directory, [spec], 1, options)
  const pid = await numberIn(pidPath)
  await until('the host has recorded its process', () => recordOf(directory)?.process)
  host.kill('SIGKILL')
  await once(host, 'exit')
  return pid
}

/** The record of the server `arena-aaaaa`. */
export const recordPath = (directory: string) => join(directory, 'instances', 'default.arena-aaaaa', 'instance.json')

export function recordOf(directory: string) {
  const text = contentOf(recordPath(directory))
  return text === undefined ? undefined : JSON.parse(text)
}

export function edit(directory: string, change: (record: Record<string, unknown>) => void): void {
  const record = JSON.parse(readFileSync(recordPath(directory), 'utf8'))
  change(record)
  writeFileSync(recordPath(directory), JSON.stringify(record))
}

/** A logger that collects warnings and errors. */
export function listening() {
  const warnings: string[] = []
  const nothing = () => {}
  const warn = (_: object, message: string) => void warnings.push(message)
  return { warnings, logger: { debug: nothing, info: nothing, warn, error: warn } }
}
