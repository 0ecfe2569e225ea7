/**
 * The conformance suite for bundled and third-party backends, as cases that any test runner can run. Each case opens its
 * own backend, creates real instances and leaves none behind.
 */
import { FleetError } from '../contracts/errors.js'
import {
  type BackendCase,
  destroyCases,
  execCases,
  lifecycleCases,
  portCases,
  restartCases,
  stdinCases,
  watchCases,
} from './backend-cases.js'
import { Subject, type SubjectOptions } from './backend-subject.js'
import type { ConformanceCase } from './conformance.js'

export interface BackendConformanceOptions extends SubjectOptions {
  /** Cases to skip because they do not apply to this backend, each with the reason. */
  readonly inapplicable?: Partial<Readonly<Record<BackendConformanceCase, string>>>
}

const cases = {
  ...lifecycleCases,
  ...destroyCases,
  ...portCases,
  ...watchCases,
  ...restartCases,
  ...stdinCases,
  ...execCases,
}

export type BackendConformanceCase = keyof typeof cases

/** Throws `invalid` if `inapplicable` contains an unknown case or an empty reason. */
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
    // Report the failure of the case even if the cleanup fails too.
    await tearDown(subject).catch(() => {})
    throw error
  }
  await tearDown(subject)
}

function tearDown(subject: Subject): Promise<void> {
  return subject.inTime('instances are destroyed and the backend is closed', subject.tearDown())
}
