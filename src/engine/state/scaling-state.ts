/** What the engine remembers of a build with scaling policies. */
import type { BuildSpec } from '../../rules/model/resources.js'
import type { Forecast } from '../../rules/scaling/forecast.js'
import type { Decision, OpenWindow } from '../../rules/scaling/policies.js'
import type { WindowState } from '../../rules/scaling/windows.js'
import type { ServerEntry } from './entries.js'

export interface ScalingState {
  /** The spec whose policies have decided. */
  source: BuildSpec
  /** That spec with the numbers that have been decided. */
  spec: BuildSpec
  decision: Decision
  /** Since when nobody has used the build or waited for it, elapsed ms. Undefined while somebody does. */
  idleSince: number | undefined
  /** The window that is open, since it was looked up. */
  open: Cached<OpenWindow> | undefined
  forecast: Cached<Forecast> | undefined
  replaceWindow: Cached<WindowState> | undefined
  override: Override | undefined
  /** The decision that the last event has told, and when, elapsed ms. */
  told: Pick<Decision, 'decider' | 'standingBy'> & { readonly at: number }
  /** Idle servers that are being replaced for their age. */
  aged: ReadonlySet<ServerEntry>
  /** When their age is looked at again, elapsed ms. */
  agesDueAt: number
}

/** `standingBy` was set by hand. */
export interface Override {
  /** What it was before, and what it was set to. */
  readonly from: number
  readonly to: number
  /** Wall time in ms. */
  readonly until: number
  /** Of the condition. */
  readonly message: string
}

/** Something that holds from one wall time in ms to another, unless the clock is changed. */
export interface Cached<T extends { readonly until: number }> {
  readonly from: number
  readonly spec: BuildSpec
  readonly value: T
}

/** Looks it up again once it may have changed. */
export function cached<T extends { readonly until: number }>(
  before: Cached<T> | undefined,
  spec: BuildSpec,
  now: number,
  read: () => T,
): Cached<T> {
  const holds = before?.spec === spec && now >= before.from && now < before.value.until
  return holds ? before : { from: now, spec, value: read() }
}
