/** What a container uses, from the engine's statistics. Pure. */
import type { InstanceUsage } from '../../../src/contracts/backend.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt } from '../../../src/rules/validation/pod-template.js'

/** Undefined for a container that does not run: the engine then has no numbers. */
export function usageIn(stats: unknown): InstanceUsage | undefined {
  if (!isObject(stats)) return undefined
  const memory = objectAt(stats, 'memory_stats')
  const detail = objectAt(memory, 'stats')
  const used = memory['usage']
  const cpu = objectAt(objectAt(stats, 'cpu_stats'), 'cpu_usage')['total_usage']
  if (typeof used !== 'number' || typeof cpu !== 'number') return undefined
  // As `docker stats` does: files that the kernel can drop at any time do not count. The names of cgroups 1 and 2.
  const cached = detail['total_inactive_file'] ?? detail['inactive_file']
  return { memoryBytes: used - (typeof cached === 'number' && cached < used ? cached : 0), cpuSeconds: cpu / 1e9 }
}
