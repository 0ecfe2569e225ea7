/** Reads what callers hand in: builds, patches and allocation requests. Pure; says which field is wrong and how. */
import { isBuildName, isNamespace, maxBuildNameLength, maxNamespaceLength } from '../model/names.js'
import { type Checked, invalid, isObject, shown, valid } from './problem.js'
import type { AllocationRequest, BuildSpec, HealthLimits, PodTemplateSpec } from '../model/resources.js'
import { isPort } from '../model/ports.js'
import { checkTemplate, type TemplateSupport } from './template.js'

export interface BuildInput {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: BuildSpec
}

export interface BuildPatch {
  readonly standingBy?: number
  readonly max?: number
}

type Refusal = ReturnType<typeof invalid>

/** All that a spec may hold. */
export const specFields: ReadonlySet<string> = new Set([
  'buildID',
  'standingBy',
  'max',
  'portsToExpose',
  'crashesToMarkUnhealthy',
  'health',
  'template',
  'buildMetadata',
])

export const defaultNamespace = 'default'

const maxBuildIDLength = 128
/** Far beyond any pod, and far from what would be too deep for those who write, hash or send it. */
const maxTemplateDepth = 64

/**
 * Reads the body of a create. `status` and whatever else stands outside `spec` is ignored, but for the name and the
 * namespace; an unknown field in `spec` is refused. What a backend needs of the template is `checkForBackend`.
 */
export function readBuildInput(body: unknown): Checked<BuildInput> {
  if (!isObject(body)) return invalid('body', `must be a GameServerBuild object, but is ${shown(body)}`)
  const { metadata, spec } = body
  if (!isObject(metadata)) return invalid('metadata', `must be an object with a name, but is ${shown(metadata)}`)
  const { name, namespace = defaultNamespace } = metadata
  if (!isBuildName(name)) return notALabel('metadata.name', name, maxBuildNameLength)
  if (!isNamespace(namespace)) return notALabel('metadata.namespace', namespace, maxNamespaceLength)
  const checked = readSpec(spec)
  return checked.ok ? valid({ metadata: { name, namespace }, spec: checked.value }) : checked
}

function readSpec(spec: unknown): Checked<BuildSpec> {
  if (!isObject(spec)) return invalid('spec', `must be an object, but is ${shown(spec)}`)
  const unknown = Object.keys(spec).find((field) => !specFields.has(field))
  if (unknown !== undefined) {
    return invalid(`spec.${unknown}`, `is not a field of a build; known are ${[...specFields].join(', ')}`)
  }
  const { buildID, standingBy, max, portsToExpose, crashesToMarkUnhealthy, health, template, buildMetadata } = spec
  if (typeof buildID !== 'string' || buildID.length === 0 || buildID.length > maxBuildIDLength) {
    return invalid(
      'spec.buildID',
      `must be a string of 1 to ${maxBuildIDLength} characters, but ${found(buildID, maxBuildIDLength)}`,
    )
  }
  if (!isCount(standingBy)) return notACount('spec.standingBy', standingBy)
  if (!isCount(max)) return notACount('spec.max', max)
  const bounds = checkBounds(standingBy, max, 'spec.')
  if (bounds) return bounds
  if (!isPortList(portsToExpose)) return portListProblem(portsToExpose)
  if (crashesToMarkUnhealthy !== undefined && !(isCount(crashesToMarkUnhealthy) && crashesToMarkUnhealthy >= 1)) {
    return invalid('spec.crashesToMarkUnhealthy', `must be an integer ≥ 1, but is ${shown(crashesToMarkUnhealthy)}`)
  }
  const limits = health === undefined ? undefined : readHealthLimits(health)
  if (limits && !limits.ok) return limits
  const copied = readTemplate(template)
  if (!copied.ok) return copied
  if (buildMetadata !== undefined && !isStrings(buildMetadata)) return metadataProblem(buildMetadata)
  return valid({
    buildID,
    standingBy,
    max,
    portsToExpose: [...portsToExpose],
    ...(crashesToMarkUnhealthy !== undefined && { crashesToMarkUnhealthy }),
    ...(limits && { health: limits.value }),
    template: copied.value,
    ...(buildMetadata !== undefined && { buildMetadata: { ...buildMetadata } }),
  })
}

const healthSeconds = ['firstHeartbeatSeconds', 'silenceSeconds', 'initializingSeconds', 'sessionSeconds'] as const

function readHealthLimits(health: unknown): Checked<HealthLimits> {
  if (!isObject(health)) return invalid('spec.health', `must be an object of limits, but is ${shown(health)}`)
  const known: readonly string[] = [...healthSeconds, 'endLongSessions']
  const unknown = Object.keys(health).find((field) => !known.includes(field))
  if (unknown !== undefined) {
    return invalid(`spec.health.${unknown}`, `is not a limit of a build; known are ${known.join(', ')}`)
  }
  const limits: { -readonly [name in keyof HealthLimits]: HealthLimits[name] } = {}
  for (const name of healthSeconds) {
    const value = health[name]
    if (value === undefined) continue
    if (!isCount(value) || value < 1) {
      return invalid(`spec.health.${name}`, `must be an integer ≥ 1, in seconds, but is ${shown(value)}`)
    }
    limits[name] = value
  }
  const { endLongSessions } = health
  if (endLongSessions !== undefined) {
    if (typeof endLongSessions !== 'boolean') {
      return invalid('spec.health.endLongSessions', `must be true or false, but is ${shown(endLongSessions)}`)
    }
    if (limits.sessionSeconds === undefined) {
      return invalid('spec.health.endLongSessions', 'says nothing without spec.health.sessionSeconds')
    }
    limits.endLongSessions = endLongSessions
  }
  return valid(limits)
}

/** Reads the shape that every backend needs. The copy is the fleet's own: what its author changes later is not in it. */
function readTemplate(template: unknown): Checked<PodTemplateSpec> {
  const shape = checkTemplate(template, 'pod', 'spec.template')
  if (!shape.ok) return shape
  try {
    const copy: unknown = JSON.parse(JSON.stringify(template))
    if (isObject(copy) && !isDeeper(copy, maxTemplateDepth)) return valid(copy)
  } catch {
    // Not JSON: said below.
  }
  return invalid(
    'spec.template',
    `must be plain JSON, at most ${maxTemplateDepth} levels deep, without circles or bigint`,
  )
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((part) => isDeeper(part, levels - 1))
}

/** Reads the body of a patch. Whether standingBy ≤ max holds afterwards is `checkBounds` with the build's numbers. */
export function readPatch(body: unknown): Checked<BuildPatch> {
  if (!isObject(body)) return invalid('body', `must be an object with standingBy, max or both, but is ${shown(body)}`)
  const unknown = Object.keys(body).find((field) => field !== 'standingBy' && field !== 'max')
  if (unknown !== undefined) return invalid(unknown || '""', 'cannot be patched; only standingBy and max can')
  const { standingBy, max } = body
  if (standingBy === undefined && max === undefined) return invalid('body', 'must name standingBy, max or both')
  if (standingBy !== undefined && !isCount(standingBy)) return notACount('standingBy', standingBy)
  if (max !== undefined && !isCount(max)) return notACount('max', max)
  return valid({ ...(standingBy !== undefined && { standingBy }), ...(max !== undefined && { max }) })
}

/** `undefined` when standingBy ≤ max; else the problem, with both numbers. */
export function checkBounds(standingBy: number, max: number, prefix: '' | 'spec.'): Refusal | undefined {
  if (standingBy <= max) return undefined
  return invalid(
    `${prefix}standingBy`,
    `must be at most ${prefix}max, but standingBy is ${standingBy} and max is ${max}`,
  )
}

/** Checks the template for what a backend honours, and says what it skips. */
export function checkForBackend(spec: BuildSpec, support: TemplateSupport): Checked<{ skipped: readonly string[] }> {
  return checkTemplate(spec.template, support, 'spec.template')
}

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Reads the body of an allocation. A GUID of any version will do; its letters' case is not significant. */
export function readAllocationRequest(body: unknown): Checked<AllocationRequest> {
  if (!isObject(body)) return invalid('body', `must be an allocation request object, but is ${shown(body)}`)
  const { buildID, sessionID, sessionCookie, initialPlayers } = body
  if (typeof buildID !== 'string' || buildID === '') {
    return invalid('buildID', `must be a non-empty string, but is ${shown(buildID)}`)
  }
  if (typeof sessionID !== 'string' || !guid.test(sessionID)) {
    return invalid('sessionID', `must be a GUID, but is ${shown(sessionID)}`)
  }
  if (sessionCookie !== undefined && typeof sessionCookie !== 'string') {
    return invalid('sessionCookie', `must be a string, but is ${shown(sessionCookie)}`)
  }
  if (initialPlayers !== undefined && !isStringList(initialPlayers)) {
    return invalid('initialPlayers', `must be an array of strings, but is ${shown(initialPlayers)}`)
  }
  const players = initialPlayers && [...initialPlayers]
  // Spelled out: a spread of what may be absent costs as much as the rest of this function.
  if (sessionCookie === undefined) {
    return valid(players === undefined ? { buildID, sessionID } : { buildID, sessionID, initialPlayers: players })
  }
  return valid(
    players === undefined
      ? { buildID, sessionID, sessionCookie }
      : { buildID, sessionID, sessionCookie, initialPlayers: players },
  )
}

function notALabel(field: string, value: unknown, most: number): Refusal {
  return invalid(
    field,
    `must be 1 to ${most} lower-case letters, digits or inner dashes (RFC 1123 label), but ${found(value, most)}`,
  )
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function notACount(field: string, value: unknown): Refusal {
  return invalid(field, `must be an integer ≥ 0, but is ${shown(value)}`)
}

function isPortList(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every(isPort) && new Set(value).size === value.length
}

function portListProblem(value: unknown): Refusal {
  if (!Array.isArray(value)) return invalid('spec.portsToExpose', `must be an array of ports, but is ${shown(value)}`)
  const wrong = value.findIndex((port) => !isPort(port))
  if (wrong >= 0) {
    return invalid(`spec.portsToExpose[${wrong}]`, `must be an integer from 1 to 65535, but is ${shown(value[wrong])}`)
  }
  const seen = new Set<unknown>()
  const repeat = value.findIndex((port) => {
    if (seen.has(port)) return true
    seen.add(port)
    return false
  })
  return invalid(`spec.portsToExpose[${repeat}]`, `must not repeat a port, but ${shown(value[repeat])} stands twice`)
}

function isStrings(value: unknown): value is Readonly<Record<string, string>> {
  return isObject(value) && Object.values(value).every((entry) => typeof entry === 'string')
}

function isStringList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string')
}

function metadataProblem(value: unknown): Refusal {
  if (!isObject(value)) return invalid('spec.buildMetadata', `must be an object of strings, but is ${shown(value)}`)
  const [name, wrong] = Object.entries(value).find(([, entry]) => typeof entry !== 'string') ?? ['', undefined]
  return invalid(`spec.buildMetadata.${name}`, `must be a string, but is ${shown(wrong)}`)
}

/** What was found: the value, or how long it is where that is what is wrong with it. */
function found(value: unknown, most: number): string {
  return typeof value === 'string' && value.length > most ? `has ${value.length}` : `is ${shown(value)}`
}
