/** Validates and copies requests for builds, patches and allocations. Adds the checks that a schema cannot express. Pure. */
import type { AllocationRequest, BuildSpec, HealthLimits, PodTemplateSpec } from '../model/resources.js'
import { allocationRequest } from '../schemas/allocation.js'
import { buildInput, buildPatch, buildSpec } from '../schemas/build.js'
import { type Checked, invalid, isObject, type Refused, valid } from './problem.js'
import { checkTemplate, type TemplateSupport } from './template.js'
import { compile, compileFields } from './validator.js'

export interface BuildInput {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: BuildSpec
}

export interface BuildPatch {
  readonly standingBy?: number
  readonly max?: number
}

/** Names of all fields of a build's spec. */
export const specFields: ReadonlySet<string> = new Set(Object.keys(buildSpec.properties))

export const defaultNamespace = 'default'

/** More levels than any real template has, but few enough to serialize and hash without overflowing the stack. */
const maxTemplateDepth = 64

const checkBuildInput = compile(buildInput)
const checkPatch = compile(buildPatch)
const checkAllocationRequest = compile(allocationRequest)
const allocationFields = compileFields(allocationRequest)

/**
 * Reads the body of a request to create a build. The result is a copy, so later changes to the body do not affect it. Does
 * not check whether the backend can run the template; `checkForBackend` does.
 */
export function readBuildInput(body: unknown): Checked<BuildInput> {
  const input = checkBuildInput(body)
  if (!input.ok) return input
  const { name, namespace = defaultNamespace } = input.value.metadata
  const spec: BuildSpec = input.value.spec
  const bounds = checkBounds(spec.standingBy, spec.max, 'spec.')
  if (bounds) return bounds
  const template = readTemplate(spec.template)
  if (!template.ok) return template
  return valid({ metadata: { name, namespace }, spec: copyOf(spec, template.value) })
}

function copyOf(spec: BuildSpec, template: PodTemplateSpec): BuildSpec {
  const { buildID, standingBy, max, portsToExpose, crashesToMarkUnhealthy, health, buildMetadata } = spec
  return {
    buildID,
    standingBy,
    max,
    portsToExpose: [...portsToExpose],
    ...(crashesToMarkUnhealthy !== undefined && { crashesToMarkUnhealthy }),
    ...(health && { health: limitsOf(health) }),
    template,
    ...(buildMetadata && { buildMetadata: { ...buildMetadata } }),
  }
}

/** Copies the limits that are set. */
function limitsOf(health: HealthLimits): HealthLimits {
  const { firstHeartbeatSeconds, silenceSeconds, initializingSeconds, sessionSeconds, endLongSessions } = health
  return {
    ...(firstHeartbeatSeconds !== undefined && { firstHeartbeatSeconds }),
    ...(silenceSeconds !== undefined && { silenceSeconds }),
    ...(initializingSeconds !== undefined && { initializingSeconds }),
    ...(sessionSeconds !== undefined && { sessionSeconds }),
    ...(endLongSessions !== undefined && { endLongSessions }),
  }
}

function readTemplate(template: PodTemplateSpec): Checked<PodTemplateSpec> {
  const checked = checkTemplate(template, 'pod', 'spec.template')
  if (!checked.ok) return checked
  try {
    const copy: unknown = JSON.parse(JSON.stringify(template))
    if (isObject(copy) && !isDeeper(copy, maxTemplateDepth)) return valid(copy)
  } catch {
    // The template is circular, too deep to serialize, or contains a bigint. This is reported below.
  }
  return invalid(
    'spec.template',
    `must be plain JSON, at most ${maxTemplateDepth} levels deep, without circular references or bigint`,
  )
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((part) => isDeeper(part, levels - 1))
}

/** Reads the body of a patch. Does not check that standingBy ≤ max afterwards; `checkBounds` does. */
export function readPatch(body: unknown): Checked<BuildPatch> {
  const patch = checkPatch(body)
  if (!patch.ok) return patch
  const { standingBy, max } = patch.value
  return valid({ ...(standingBy !== undefined && { standingBy }), ...(max !== undefined && { max }) })
}

/** Returns undefined if standingBy ≤ max. */
export function checkBounds(standingBy: number, max: number, prefix: '' | 'spec.'): Refused | undefined {
  if (standingBy <= max) return undefined
  return invalid(
    `${prefix}standingBy`,
    `must be at most ${prefix}max, but standingBy is ${standingBy} and max is ${max}`,
  )
}

/** Checks whether a backend can run the template, and returns the fields that the backend skips. */
export function checkForBackend(spec: BuildSpec, support: TemplateSupport): Checked<{ skipped: readonly string[] }> {
  return checkTemplate(spec.template, support, 'spec.template')
}

/** Reads the body of an allocation. The result is a copy. */
export function readAllocationRequest(body: unknown): Checked<AllocationRequest> {
  if (!isObject(body)) return checkAllocationRequest(body)
  // This is on the hot path of allocations: reading the fields in a loop would take 50 % longer.
  const { buildID, sessionID, sessionCookie, initialPlayers } = body
  const isValid =
    allocationFields.buildID(buildID) &&
    allocationFields.sessionID(sessionID) &&
    allocationFields.sessionCookie(sessionCookie) &&
    allocationFields.initialPlayers(initialPlayers)
  if (!isValid) return checkAllocationRequest(body)
  const players = initialPlayers && [...initialPlayers]
  // Four separate literals, because spreading optional fields would cost as much as the rest of this function.
  if (sessionCookie === undefined) {
    return valid(players === undefined ? { buildID, sessionID } : { buildID, sessionID, initialPlayers: players })
  }
  return valid(
    players === undefined
      ? { buildID, sessionID, sessionCookie }
      : { buildID, sessionID, sessionCookie, initialPlayers: players },
  )
}
