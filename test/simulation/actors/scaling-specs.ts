/** Random scaling policies of builds, in the runs that have them. */
import type { BufferPolicy, ScalingSpec, SchedulePolicy } from '../../../src/rules/scaling/policies.js'
import { someWebhook } from '../models/webhook-model.js'
import type { World } from '../world/world.js'

/** Short enough that a run sees their ends. */
export function someScaling(world: World): ScalingSpec | undefined {
  if (!world.hasPolicies || world.chance(0.2)) return undefined
  const every = world.between(4, 12)
  return {
    buffer: someBuffer(world),
    ...(world.chance(0.5) && {
      schedule: {
        timeZone: world.oneOf(['UTC', 'Europe/Berlin', 'America/St_Johns']) ?? 'UTC',
        windows: [{ start: `*/${every} * * * *`, end: `2-59/${every} * * * *`, ...someBuffer(world) }],
      },
    }),
    ...(world.chance(0.5) && { webhook: someWebhook(world) }),
    scaleDown: { delaySeconds: world.between(0, 30), perMinute: world.between(10, 120) },
    ...(world.chance(0.3) && { idleSeconds: world.between(20, 90) }),
    overrideSeconds: world.between(0, 60),
    ...(world.chance(0.3) && { maxIdleAgeSeconds: world.between(60, 300) }),
  }
}

function someBuffer(world: World): BufferPolicy {
  const min = world.between(0, 2)
  return { min, percent: world.between(0, 150), ...(world.chance(0.5) && { max: world.between(min, 6) }) }
}

/** How far the clocks of these time zones are ahead of UTC in the days that are simulated, in minutes. */
const offsets: Readonly<Record<string, number>> = { UTC: 0, 'Europe/Berlin': 60, 'America/St_Johns': -210 }

/** The window of such a schedule that is open at this wall time, read without the library: the first two minutes of every so many. */
export function openWindowOf({ timeZone, windows }: SchedulePolicy, wallMs: number): BufferPolicy | undefined {
  const minute = Math.floor(wallMs / 60_000) + (offsets[timeZone] ?? 0)
  const ofHour = ((minute % 60) + 60) % 60
  return windows.find(({ start }) => ofHour % Number(/^\*\/(\d+) /.exec(start)?.[1]) < 2)
}

/** The policies that change nothing on their own. */
export function calm({ buffer, scaleDown, overrideSeconds, webhook }: ScalingSpec): ScalingSpec {
  return {
    ...(buffer && { buffer }),
    ...(webhook && { webhook }),
    ...(scaleDown && { scaleDown }),
    ...(overrideSeconds !== undefined && { overrideSeconds }),
  }
}

/** What a buffer asks for while so many servers are in use. */
export function bufferOf({ min = 0, percent = 0, max = Infinity }: BufferPolicy, used: number): number {
  const share = Math.ceil((used * percent) / 100)
  return Math.min(max, share > min ? share : min)
}
