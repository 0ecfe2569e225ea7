/**
 * What every backend must do, as cases for any test runner: the bundled backends pass them, and a third party's can.
 * Each case opens a backend of its own, works with real instances and leaves none behind.
 */
import { FleetError } from '../contracts/errors.js'
import type { BackendCase } from './backend-cases/case.js'
import { lifeCases } from './backend-cases/life.js'
import { portCases } from './backend-cases/ports.js'
import { restartCases } from './backend-cases/restart.js'
import { watchCases } from './backend-cases/watch.js'
import { Subject, type SubjectOptions } from './backend-subject.js'
import type { ConformanceCase } from './conformance.js'

export interface BackendConformanceOptions extends SubjectOptions {
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
