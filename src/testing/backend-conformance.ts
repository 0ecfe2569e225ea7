/**
 * The conformance suite for backends, bundled or third-party, as cases for any test runner. Each case opens its own
 * backend, works with real instances and leaves none behind.
 */
import { FleetError } from '../contracts/errors.js'
import type { BackendCase } from './backend-cases/case.js'
import { lifecycleCases } from './backend-cases/lifecycle.js'
import { portCases } from './backend-cases/ports.js'
import { restartCases } from './backend-cases/restart.js'
import { watchCases } from './backend-cases/watch.js'
import { Subject, type SubjectOptions } from './backend-subject.js'
import type { ConformanceCase } from './conformance.js'

export interface BackendConformanceOptions extends SubjectOptions {
  /** Cases to leave out because they cannot apply to this backend: case name to reason. */
  readonly inapplicable?: Partial<Readonly<Record<BackendConformanceCase, string>>>
}

const cases = { ...lifecycleCases, ...portCases, ...watchCases, ...restartCases }

export type BackendConformanceCase = keyof typeof cases

/** Throws `invalid` if `inapplicable` has an unknown case or an empty reason. */
export function backendConformance(options: BackendConformanceOptions): readonly ConformanceCase[] {
  const inapplicable = new Map(Object.entries(options.inapplicable ?? {}))
  for (const [name, reason] of inapplicable) {
    if (!Object.hasOwn(cases, name)) throw new FleetError('invalid', `inapplicable has an unknown case: ${name}`)
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
    // The failure of the case matters more than a failed cleanup.
    await tearDown(subject).catch(() => {})
    throw error
  }
  await tearDown(subject)
}

function tearDown(subject: Subject): Promise<void> {
  return subject.inTime('instances are destroyed and the backend is closed', subject.tearDown())
}
