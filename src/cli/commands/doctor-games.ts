/** Checks what separates game processes from the host and from each other on this machine, and which limits hold. */
import { isolationsHere, limitsHere, processBackend } from '../../../adapters/process/index.js'
import type { IsolationStatus } from '../../contracts/backend.js'
import { messageOf } from '../../contracts/errors.js'
import { asUsageError } from '../../server/open-fleet.js'
import type { Config } from '../../server/settings.js'

export interface Finding {
  readonly check: string
  readonly ok: boolean
  /** What is wrong and how to mend it, or what was found. */
  readonly message: string
}

interface Checked {
  readonly finding: Finding
  readonly status: IsolationStatus | undefined
}

const cgroupMend = 'to mend: run as root, outside of a container or in one that may write to its /sys/fs/cgroup'

export function checkGames(config: Config): readonly Finding[] {
  const { finding, status } = checkIsolation(config)
  const { memory, pids } = config.isolation === 'systemd' && status ? status : limitsHere()
  return [finding, limitFinding('memory of games', memory), limitFinding('tasks of games', pids)]
}

function checkIsolation({ isolation, runAs, readOnlyPaths, dataDir: directory }: Config): Checked {
  const check = `ISOLATION ${isolation}`
  try {
    const { isolation: status } = processBackend({ directory, isolation, readOnlyPaths, ...(runAs && { runAs }) })
    if (isolation !== 'none') return { finding: { check, ok: true, message: 'works here' }, status }
    const user = runAs ? `user ${runAs.user}` : 'the user of the host, and can read its files'
    return { finding: { check, ok: true, message: `games run as ${user}; ${others(isolation)}` }, status }
  } catch (error) {
    const message = `${messageOf(asUsageError(error))}; ${others(isolation)}`
    return { finding: { check, ok: false, message }, status: undefined }
  }
}

/** Names every other isolation, and why this machine lacks it. */
function others(chosen: string): string {
  return Object.entries(isolationsHere())
    .filter(([isolation]) => isolation !== chosen && isolation !== 'none')
    .map(([isolation, why]) => (why === undefined ? `--isolation ${isolation} works here` : `${isolation}: ${why}`))
    .join('; ')
}

/** The server works without limits, so their absence is no failure. */
function limitFinding(check: string, limit: string): Finding {
  const isEnforced = limit.includes('per server')
  return { check, ok: true, message: isEnforced ? limit : `${limit}; ${cgroupMend}` }
}
