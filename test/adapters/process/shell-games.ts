/** Small games in shell, and what they print. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend, InstanceSpec } from '../../../src/contracts/backend.js'
import { type GameOptions, specOf, until } from './support.js'

/** A game in shell; a template's `$$` yields one `$`. */
export function shellGame(script: string, options: GameOptions = {}): InstanceSpec {
  return specOf(['/bin/sh', '-c', script.replaceAll('$$', () => '$$$$')], options)
}

/** Creates the game and returns its output once it has printed `done`. */
export async function outputOf(backend: Backend, spec: InstanceSpec): Promise<string> {
  await backend.create(spec)
  return until('the game has printed its output', async () => {
    const lines: string[] = []
    for await (const line of backend.logs?.(spec.ref) ?? noLogs()) lines.push(line)
    return lines.includes('done') && lines.join('\n')
  })
}

function noLogs(): never {
  throw new Error('the backend has no logs')
}

/** The instance's directory. */
export const homeOf = (directory: string, name = 'arena-aaaaa') => join(directory, 'instances', `default.${name}`)

export function recordIn(directory: string, name?: string) {
  return JSON.parse(readFileSync(join(homeOf(directory, name), 'instance.json'), 'utf8'))
}

/** What a process finds around it. Shells set the variables that are left out. */
export const place = `id -u; id -G; pwd; ulimit -n; ulimit -d; grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status
readlink /proc/self/ns/net; [ -e /proc/1 ] || echo alone
grep -E ':(memory|pids):' /proc/self/cgroup | md5sum; env | grep -Ev '^(_|SHLVL|OLDPWD|GAMEKEEPER_INSTANCE)=' | sort | md5sum`
