/** Checks what separates game processes from the host and from each other on this machine, and which limits hold. */
import { endsGamesHere, isolationsHere, limitsHere, processBackend } from '../../../adapters/process/index.js'
import type { IsolationStatus } from '../../contracts/backend.js'
import { messageOf } from '../../contracts/errors.js'
import { openFileLimit, serversForOpenFiles } from '../../platform/open-files.js'
import { counted } from '../../rules/model/counted.js'
import { asUsageError } from '../../server/open-fleet.js'
import type { Config } from '../../server/settings.js'
import { storedFleet } from '../stored/stored-fleet.js'

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

export async function checkGames(config: Config): Promise<readonly Finding[]> {
  const { finding, status } = checkIsolation(config)
  const { memory, pids } = config.isolation === 'systemd' && status ? status : limitsHere()
  const limits = [limitFinding('memory of games', memory), limitFinding('tasks of games', pids)]
  return [finding, ...limits, checkRestarts(config), await checkOpenFiles(config)]
}

/** Compares the limit with the `max` of the builds that a host has stored here. */
async function checkOpenFiles({ apiGroup, dataDir }: Config): Promise<Finding> {
  const check = 'open files'
  const [limit, servers] = [openFileLimit(), serversForOpenFiles()]
  if (limit === undefined || servers === undefined) return { check, ok: true, message: 'no limit' }
  const builds = await storedFleet(dataDir, apiGroup).then(
    (fleet) => fleet.builds.list(),
    // No host has run here, or its store cannot be read, which `serve` reports.
    () => [],
  )
  const max = builds.reduce((sum, { spec }) => sum + spec.max, 0)
  const message = `at most ${limit}, enough for about ${counted(servers, 'game server')}`
  if (max <= servers) return { check, ok: true, message }
  const mend = 'raise it (ulimit -n, or LimitNOFILE of systemd)'
  return { check, ok: false, message: `${message}, but the builds have a max of ${max} together; ${mend}` }
}

function checkRestarts({ isolation }: Config): Finding {
  const why = isolation === 'systemd' ? undefined : endsGamesHere()
  return { check: 'restarts', ok: why === undefined, message: why ?? 'games survive those by this process manager' }
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
