/** What ends this host's games when its process manager restarts the host. Reads `/proc`, and asks systemd. */
import { spawnSync } from 'node:child_process'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { readProc } from '../../../src/platform/process-identity.js'
import { locateCommand, systemPath } from '../isolation/programs.js'
import { isAdoptedByNode } from './supervisor.js'

/**
 * Says why games would not survive a restart of this process by the process manager that started it, and how to mend that; undefined if they
 * would. Games with `isolation: 'systemd'` always do. For people: the wording may change.
 */
export function endsGamesHere(): string | undefined {
  if (process.platform !== 'linux') return 'games are child processes of the host: pm2 and nodemon end them with it'
  if (isAdoptedByNode()) {
    return 'process 1 of this container is node, so games stay child processes of the host and end with it; start the container with an init, as with docker run --init'
  }
  if (!locateCommand('setsid', '/', systemPath).ok) {
    return 'the program setsid is missing, so pm2 and nodemon end games with the host; install util-linux'
  }
  const unit = serviceIn(readProc('/proc/self/cgroup', process.pid) ?? '')
  const mode = unit && killModeOf(unit)
  if (!unit || !mode || mode === 'process' || mode === 'none') return undefined
  return `${unit.name} has KillMode=${mode}: systemd ends games whenever it stops the service; set KillMode=process, or --isolation systemd`
}

interface Service {
  readonly name: string
  readonly isOfUser: boolean
}

/** The service of systemd in which a process runs, from its `/proc/<pid>/cgroup`. Undefined if it runs in a session, for example. */
export function serviceIn(cgroups: string): Service | undefined {
  const path = /^(?:0:|\d+:name=systemd):(.*)$/m.exec(cgroups)?.[1] ?? ''
  const name = path.split('/').at(-1) ?? ''
  return name.endsWith('.service') ? { name, isOfUser: path.includes('/user@') } : undefined
}

/** Undefined if systemd does not say, as in a container. */
function killModeOf({ name, isOfUser }: Service): string | undefined {
  const args = [...(isOfUser ? ['--user'] : []), 'show', '--property=KillMode', '--value', '--', name]
  const env = { ...process.env, PATH: systemPath }
  const { status, stdout } = spawnSync(...ownDescriptors('systemctl', args), { env, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}
