/** Random scaling policies of builds, in the runs that have them. */
import type { BufferPolicy, CronWindow, ScalingSpec, SchedulePolicy } from '../../../src/rules/scaling/policies.js'
import { someWebhook } from '../models/webhook-model.js'
import { type ClockChange, lastTime, offsetMs, timeZones } from '../world/time-zones.js'
import type { World } from '../world/world.js'

/** Short enough that a run sees their ends. */
export function someScaling(world: World): ScalingSpec | undefined {
  if (!world.hasPolicies || world.chance(0.2)) return undefined
  const every = world.between(4, 12)
  return {
    buffer: someBuffer(world),
    ...((world.clockChange !== undefined || world.chance(0.5)) && {
      schedule: someSchedule(world, every),
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

/** On the night of a clock change, most windows begin and end around it. Others are open for two minutes of every so many. */
function someSchedule(world: World, every: number): SchedulePolicy {
  const { clockChange } = world
  const recurring = { start: `*/${every} * * * *`, end: `2-59/${every} * * * *` }
  if (!clockChange) {
    return { timeZone: world.oneOf(timeZones) ?? 'UTC', windows: [{ ...recurring, ...someBuffer(world) }] }
  }
  const windows = Array.from({ length: world.between(1, 2) }, () => ({
    ...(world.chance(0.2)
      ? recurring
      : { start: someTimeAround(world, clockChange), end: someTimeAround(world, clockChange) }),
    // More than the other policies mostly ask for, so that it shows whether the window is open.
    min: world.between(1, 6),
  }))
  return { timeZone: clockChange.timeZone, windows }
}

/** A time that clocks show within some minutes of the change, or would show if they were not changed. It may be skipped or occur twice. */
function someTimeAround(world: World, { atMs, beforeMs, afterMs }: ClockChange): string {
  const shown = new Date(atMs + (world.chance(0.5) ? beforeMs : afterMs) + world.between(-5, 6) * 60_000)
  return `${shown.getUTCMinutes()} ${shown.getUTCHours()} * * *`
}

/** The first window of such a schedule that is open at this wall time, read without the library. */
export function openWindowOf({ timeZone, windows }: SchedulePolicy, wallMs: number): BufferPolicy | undefined {
  return windows.find((window) => isOpen(window, timeZone, wallMs))
}

function isOpen({ start, end }: CronWindow, timeZone: string, wallMs: number): boolean {
  const every = /^\*\/(\d+) /.exec(start)?.[1]
  if (every !== undefined) {
    const minute = Math.floor((wallMs + offsetMs(timeZone, wallMs)) / 60_000)
    return (((minute % 60) + 60) % 60) % Number(every) < 2
  }
  const last = (time: string) => {
    const [minute, hour] = time.split(' ').map(Number)
    return lastTime(timeZone, Number(hour) * 60 + Number(minute), wallMs)
  }
  return start === end || last(start) > last(end)
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
