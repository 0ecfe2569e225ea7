/** Validates and copies requests for builds, patches and allocations. Adds the checks that a schema cannot express. Pure. */
import type { AllocationRequest, OwnAllocationRequest } from '../model/allocation.js'
import type { BuildSpec, HealthLimits, PodTemplateSpec } from '../model/resources.js'
import type { RunSpec } from '../model/run.js'
import { fitsBytes, sizeLimits, utf8Bytes } from '../model/sizes.js'
import { allocationRequest, ownAllocationRequest } from '../schemas/allocation.js'
import { buildInput, buildPatch, buildSpecInput } from '../schemas/build.js'
import { allInOne, type Checked, invalid, isObject, type Problem, type Refused, valid } from './problem.js'
import { checkRunPorts, expandRun, runFieldsIn } from './run.js'
import { checkDeclared } from './server-data.js'
import { checkSeveralSessions } from './several-sessions.js'
import { checkBuildSelection, checkSelection } from './selection.js'
import { checkTemplate, type TemplateSupport } from './template.js'
import { compile, compileDocument, compileFields, type Validator } from './validator.js'

export interface BuildInput {
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: BuildSpec
  /** Absent if the spec was given with `template`. For messages, which name its fields instead of the template's. */
  readonly run?: RunSpec
}

/** A spec before `run` is expanded. */
type AnySpec = Omit<BuildSpec, 'portsToExpose' | 'template'> &
  Partial<Pick<BuildSpec, 'portsToExpose' | 'template'>> & { readonly run?: RunSpec }

export interface BuildPatch {
  readonly standingBy?: number
  readonly max?: number
}

/** Names of all fields that a build's spec may have when it is sent. */
export const specFields: ReadonlySet<string> = new Set(Object.keys(buildSpecInput.properties))

export const defaultNamespace = 'default'

/** More levels than any real template has, but few enough to serialize and hash without overflowing the stack. */
const maxTemplateDepth = 64

/** Stated, because type-aware linting does not always resolve the type of so large a schema. */
const checkBuildInput: Validator<{
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: AnySpec
}> = compileDocument(buildInput)
const checkPatch = compileDocument(buildPatch)
const checkAllocationRequest = compile(allocationRequest)
const allocationFields = compileFields(allocationRequest)
/** Reads what a game sends to take its own server. */
export const readOwnAllocation: Validator<OwnAllocationRequest> = compile(ownAllocationRequest)

/**
 * Reads the body of a request to create a build, and expands `run`. The result is a copy, so later changes to the body do not
 * affect it. Does not check whether the backend can run the template; `checkForBackend` does.
 */
export function readBuildInput(body: unknown): Checked<BuildInput> {
  const input = checkBuildInput(body)
  if (!input.ok) return isOfThundernetes(body) ? withThundernetesHint(input) : input
  const { name, namespace = defaultNamespace } = input.value.metadata
  const { run } = input.value.spec
  const spec = expanded(input.value.spec)
  const template = readTemplate(spec.template)
  const failed = [
    checkBounds(spec.standingBy, spec.max, 'spec.'),
    run && checkRunPorts(run),
    checkDeclared(spec),
    checkBuildSelection(spec),
    checkSeveralSessions(spec),
    template.ok ? undefined : run ? inTermsOf(run, template) : template,
  ]
  const [first, ...others]: readonly Problem[] = failed.flatMap((one) => one?.problem ?? [])
  if (first) return { ok: false, problem: allInOne([first, ...others]) }
  if (!template.ok) return template
  const metadata = { name, namespace }
  return valid({ metadata, spec: copyOf(spec, template.value), ...(run && { run: structuredClone(run) }) })
}

/** True for a build as it is written for Thundernetes, whose format only hosts with the option `compat` read. */
function isOfThundernetes(body: unknown): boolean {
  if (!isObject(body) || !isObject(body['spec'])) return false
  const { titleID, buildMetadata } = body['spec']
  return titleID !== undefined || Array.isArray(buildMetadata)
}

function withThundernetesHint({ problem: { field, message } }: Refused): Refused {
  const hint = 'for a file of Thundernetes, start the host with COMPAT=thundernetes, or see docs/guides/migrating.md'
  return invalid(field, `${message}; ${hint}`)
}

/** The schema has made sure that the spec has either `run` or both other fields. */
function expanded({ run, portsToExpose = [], template = {}, ...spec }: AnySpec): BuildSpec {
  return { ...spec, ...(run ? expandRun(run) : { portsToExpose, template }) }
}

function copyOf(spec: BuildSpec, template: PodTemplateSpec): BuildSpec {
  const { buildID, standingBy, max, portsToExpose, crashesToMarkUnhealthy, health, termination, buildMetadata } = spec
  const { claimSeconds, seatsPerSession, sessionsPerServer, standingBySessions } = spec
  const { eviction, counters, lists, labels, order } = spec
  return {
    buildID,
    standingBy,
    max,
    portsToExpose: [...portsToExpose],
    ...(crashesToMarkUnhealthy !== undefined && { crashesToMarkUnhealthy }),
    ...(health && { health: limitsOf(health) }),
    template,
    ...(termination && { termination }),
    ...(claimSeconds !== undefined && { claimSeconds }),
    ...(seatsPerSession !== undefined && { seatsPerSession }),
    ...(sessionsPerServer !== undefined && { sessionsPerServer }),
    ...(standingBySessions !== undefined && { standingBySessions }),
    ...(eviction && { eviction }),
    ...(buildMetadata && { buildMetadata: { ...buildMetadata } }),
    ...(counters && { counters: structuredClone(counters) }),
    ...(lists && { lists: structuredClone(lists) }),
    ...(labels && { labels: { ...labels } }),
    ...(order && { order: { ...order } }),
  }
}

/** Copies the limits that are set. */
function limitsOf(health: HealthLimits): HealthLimits {
  const { lateStartSeconds, initializingSeconds, sessionSeconds, endLongSessions } = health
  const { firstHeartbeatSeconds, silenceSeconds } = health
  return {
    ...(firstHeartbeatSeconds !== undefined && { firstHeartbeatSeconds }),
    ...(silenceSeconds !== undefined && { silenceSeconds }),
    ...(lateStartSeconds !== undefined && { lateStartSeconds }),
    ...(initializingSeconds !== undefined && { initializingSeconds }),
    ...(sessionSeconds !== undefined && { sessionSeconds }),
    ...(endLongSessions !== undefined && { endLongSessions }),
  }
}

function readTemplate(template: PodTemplateSpec): Checked<PodTemplateSpec> {
  const checked = checkTemplate(template, 'pod', 'spec.template')
  if (!checked.ok) return checked
  try {
    // First, because it takes quadratic time to serialize a deep value.
    if (!isDeeper(template, maxTemplateDepth)) {
      const text = JSON.stringify(template)
      if (!fitsBytes(text, sizeLimits.templateBytes)) return templateTooLarge(utf8Bytes(text))
      const copy: unknown = JSON.parse(text)
      if (isObject(copy)) return valid(copy)
    }
  } catch {
    // The template contains a bigint. This is reported below.
  }
  return invalid(
    'spec.template',
    `must be plain JSON, at most ${maxTemplateDepth} levels deep, without circular references or bigint`,
  )
}

function templateTooLarge(bytes: number): Refused {
  return invalid('spec.template', `must have at most ${sizeLimits.templateBytes} bytes as JSON, but has ${bytes}`)
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
export function checkForBackend(
  { spec, run }: Pick<BuildInput, 'spec' | 'run'>,
  support: TemplateSupport,
): Checked<{ skipped: readonly string[] }> {
  const checked = checkTemplate(spec.template, support, 'spec.template')
  if (run === undefined) return checked
  if (!checked.ok) return inTermsOf(run, checked)
  return valid({ skipped: checked.value.skipped.map((field) => runFieldsIn(field, run)) })
}

/** A problem of the expanded template, at the field of `run` that causes it. */
function inTermsOf(run: RunSpec, { problem }: Refused): Refused {
  return invalid(runFieldsIn(problem.field, run), runFieldsIn(problem.message, run))
}

/**
 * Reads the body of an allocation. The result is a copy. A field that is null is absent: serializers of C# and Go write what
 * is not set so.
 */
export function readAllocationRequest(body: unknown): Checked<AllocationRequest> {
  const request = readRequest(body)
  // Valid requests, which are on the hot path, are read only once.
  if (request.ok || !isObject(body)) return request
  const fields = Object.entries(body)
  const given = fields.filter(([, value]) => value !== null)
  if (given.length < fields.length) return readAllocationRequest(Object.fromEntries(given))
  const [wrong, right] = wrongCase(body) ?? []
  return wrong === undefined ? request : invalid(wrong, `must be written ${right}: the case of letters matters`)
}

/** Returns a field that is known in another case, and the known one, which is absent. */
function wrongCase(body: Readonly<Record<string, unknown>>): readonly [string, string] | undefined {
  for (const known of Object.keys(allocationRequest.properties)) {
    if (known in body) continue
    const wrong = Object.keys(body).find((name) => name.toLowerCase() === known.toLowerCase())
    if (wrong !== undefined) return [wrong, known]
  }
  return undefined
}

function readRequest(body: unknown): Checked<AllocationRequest> {
  if (!isObject(body)) return checkAllocationRequest(body)
  // This is on the hot path of allocations: reading the fields in a loop would take 50 % longer.
  const { buildID, select, server, order, sessionID, sessionCookie, initialPlayers } = body
  const { labels, annotations, counters, lists } = body
  const changes = labels !== undefined || annotations !== undefined || counters !== undefined || lists !== undefined
  if (select !== undefined || server !== undefined || order !== undefined || changes) return readSelection(body)
  const known = 2 + Number(sessionCookie !== undefined) + Number(initialPlayers !== undefined)
  const isValid =
    Object.keys(body).length === known &&
    buildID !== undefined &&
    allocationFields.buildID(buildID) &&
    allocationFields.sessionID(sessionID) &&
    allocationFields.sessionCookie(sessionCookie) &&
    allocationFields.initialPlayers(initialPlayers)
  if (!isValid) return readSelection(body)
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

function readSelection(body: unknown): Checked<AllocationRequest> {
  const request: Checked<AllocationRequest> = checkAllocationRequest(body)
  if (!request.ok) return request
  return checkSelection(request.value) ?? valid(copyOfRequest(request.value))
}

/** Field by field, because `structuredClone` takes longer than all the rest of an allocation. */
function copyOfRequest(request: AllocationRequest): AllocationRequest {
  const copy: Record<string, unknown> = {}
  for (const name in allocationRequest.properties) {
    const value: unknown = Reflect.get(request, name)
    if (value !== undefined) copy[name] = plainCopy(value)
  }
  return copy as unknown as AllocationRequest
}

function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy)
  if (!isObject(value)) return value
  const copy = { ...value }
  for (const name in copy) {
    const part = copy[name]
    if (typeof part === 'object') copy[name] = plainCopy(part)
  }
  return copy
}
