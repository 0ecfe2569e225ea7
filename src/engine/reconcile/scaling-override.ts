/** Finds out whether `standingBy` was set by hand, which overrides a build's scaling policies for a time, and until when. Changes nothing. */
import type { BuildSpec } from '../../rules/model/resources.js'
import { canonical } from '../../rules/model/values.js'
import { type Now, overrideMs } from '../../rules/scaling/policies.js'
import type { BuildEntry } from '../state/entries.js'
import type { Override, ScalingState } from '../state/scaling-state.js'

/** Clocks of two hosts may differ by so much. */
const skewMs = 60_000

/** The number that was set by hand, if it holds still: if `standingBy` was changed and nothing else but `max`, and was not put back. */
export function overrideOf(build: BuildEntry, spec: BuildSpec, now: Now): Override | undefined {
  const { scaling = {} } = spec
  const source = build.scaling?.source ?? spec
  const known = build.scaling ? build.scaling.override : recordedOverride(build)
  const holds = known && known.until > now.wall && known.until <= now.wall + overrideMs(scaling) + skewMs
  if (source !== spec && canonical(source.scaling) !== canonical(scaling)) return undefined
  const number = known?.to ?? source.standingBy
  if (number === spec.standingBy) return holds ? known : undefined
  if (known && known.from === spec.standingBy) return undefined
  if (source !== spec && canonical(withoutNumbers(source)) !== canonical(withoutNumbers(spec))) return undefined
  return newOverride(spec, known?.from ?? number, now.wall)
}

/** What a caller has set, even if to the number that it was. Undefined if the build allows no override. */
export function setByHand({ override, source }: ScalingState, spec: BuildSpec, now: number): Override | undefined {
  return newOverride(spec, override?.from ?? source.standingBy, now)
}

/** Undefined if the build allows none. */
function newOverride({ scaling = {}, standingBy: to }: BuildSpec, from: number, now: number): Override | undefined {
  const until = now + overrideMs(scaling)
  if (until === now) return undefined
  const message = `standingBy was set from ${from} to ${to}, which holds instead of the scaling policies until ${new Date(until).toISOString()}`
  return { from, to, until, message }
}

/** What the condition in the record says, which an earlier leader has set. */
function recordedOverride({ record }: BuildEntry): Override | undefined {
  const { message = '' } = record.conditions.find(({ type }) => type === 'ScalingOverridden') ?? {}
  const [, from, to, until] = /from (\d+) to (\d+), .* until (\S+)$/.exec(message) ?? []
  if (until === undefined) return undefined
  return { from: Number(from), to: Number(to), until: Date.parse(until), message }
}

function withoutNumbers({ standingBy: _, max: __, ...rest }: BuildSpec): object {
  return rest
}
