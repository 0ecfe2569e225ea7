/**
 * What every backend must do, as cases for any test runner: the bundled backends pass them, and a third party's can.
 * Each case opens a backend of its own, works with real instances and leaves none behind.
 */
import type { Backend, Instance } from '../backend.js'
import { FleetError } from '../errors.js'
import type { PodTemplateSpec } from '../rules/resources.js'
import type { BackendCase } from './backend-cases/case.js'
import { lifeCases } from './backend-cases/life.js'
import { portCases } from './backend-cases/ports.js'
import { restartCases } from './backend-cases/restart.js'
import { watchCases } from './backend-cases/watch.js'
import { Subject } from './backend-subject.js'
import type { ConformanceCase } from './conformance.js'

/** Commands that a backend is given: small programs, whatever it runs. */
export type ConformanceProgram =
  /** Runs until it is told to end, and ends then. */
  | 'runs'
  /** Ends at once with the code. */
  | 'exits-0'
  | 'exits-3'
  /** Runs for one or two seconds, then ends with 5. */
  | 'exits-5-late'
  /** Runs on when it is told to end. */
  | 'ignores-terminate'
  | 'no-such-command'

export interface OpenedBackend {
  readonly backend: Backend
  /** Another backend over the same instances, after the first was closed. */
  reopen(): Promise<Backend>
  /** Called once after the case, when the backend is closed and its instances are destroyed. */
  cleanup(): Promise<void>
}

export interface BackendConformanceOptions {
  /** A backend without instances. With `publicPorts`, it has just that many public ports to give. */
  open(need: { readonly publicPorts?: number }): Promise<OpenedBackend>
  template(program: ConformanceProgram): PodTemplateSpec
  /** Resolves when a running `ignores-terminate` has got so far that it ignores. Default: as soon as it runs. */
  programUp?(instance: Instance): Promise<void>
  /** What instances are told; nothing needs to listen there. Default `127.0.0.1:56001`. */
  readonly heartbeatEndpoint?: string
  /** Two that exist. Default `default` and `other`. */
  readonly namespaces?: readonly [string, string]
  /** The longest wait for anything. Default 10 s. */
  readonly timeoutMs?: number
  /** The grace period that the case of `ignores-terminate` sits out. Default 1 s. */
  readonly graceMs?: number
  /** Cases that cannot apply to this backend, by name, each with the reason. They are left out. */
  readonly inapplicable?: Partial<Readonly<Record<BackendConformanceCase, string>>>
}

const cases = { ...lifeCases, ...portCases, ...watchCases, ...restartCases }

export type BackendConformanceCase = keyof typeof cases

/** Throws `invalid` when `inapplicable` names no case or gives no reason. */
export function backendConformance(options: BackendConformanceOptions): readonly ConformanceCase[] {
  const inapplicable = new Map(Object.entries(options.inapplicable ?? {}))
  for (const [name, reason] of inapplicable) {
    if (!Object.hasOwn(cases, name)) throw new FleetError('invalid', `inapplicable names no case: ${name}`)
    if (!reason) throw new FleetError('invalid', `inapplicable needs a reason for: ${name}`)
  }
  return Object.entries(cases)
    .filter(([name]) => !inapplicable.has(name))
    .map(([name, one]) => ({ name, run: () => runCase(options, one) }))
}

async function runCase(options: BackendConformanceOptions, one: BackendCase): Promise<void> {
  const { publicPorts } = one
  const subject = new Subject(options, await options.open(publicPorts === undefined ? {} : { publicPorts }))
  try {
    await one.check(subject)
  } catch (error) {
    // What the case found matters more than what it leaves behind.
    await tearDown(subject).catch(() => {})
    throw error
  }
  await tearDown(subject)
}

function tearDown(subject: Subject): Promise<void> {
  return subject.inTime('its instances end and the backend closes', subject.tearDown())
}
