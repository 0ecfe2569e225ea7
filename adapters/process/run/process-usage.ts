/** What the processes of a run use, from `/proc`. Linux only. */
import type { InstanceUsage } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { readProc } from '../../../src/platform/process-identity.js'

/** Of the kernel's accounting, on all platforms of Linux that Node supports. */
const ticksPerSecond = 100

/** A process that has ended counts with its parent, if that has waited for it. Throws `unsupported`. */
export function usageOf(pids: readonly number[]): Required<Omit<InstanceUsage, 'cpuCores'>> {
  if (process.platform !== 'linux')
    throw new FleetError('unsupported', `what game servers use is not measured on ${process.platform}`)
  let memoryBytes = 0
  let ticks = 0
  for (const pid of pids) {
    const stat = readProc(`/proc/${pid}/stat`, pid)
    const status = readProc(`/proc/${pid}/status`, pid)
    if (stat === undefined || status === undefined) continue
    // The name may contain spaces and parentheses. Fields 14 to 17 are utime, stime, cutime and cstime; the first after the name is 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    for (const field of [14, 15, 16, 17]) ticks += Number(fields[field - 3] ?? 0)
    memoryBytes += 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0)
  }
  return { memoryBytes, cpuSeconds: ticks / ticksPerSecond }
}
