/**
 * The facade's calls for builds, servers and details. Each call checks its input, calls the engine, and returns resources.
 */
import type { Backend, LogsOptions } from '../contracts/backend.js'
import { itemsOf, type Page, type PageOptions } from '../contracts/call-options.js'
import { accepted, FleetError, throwIfAborted } from '../contracts/errors.js'
import type { Builds, Details, MaintenanceTarget, ReserveOptions, Servers } from '../contracts/fleet.js'
import {
  anObject,
  anything,
  aSignal,
  checkNames,
  checkOptions,
  type OptionTypes,
  required,
} from '../contracts/option-checks.js'
import type { DrainOptions } from '../contracts/options.js'
import type { Applied } from '../engine/builds/build-application.js'
import type { BuildEntry, ServerEntry } from '../engine/state/entries.js'
import { serversOf } from '../engine/state/queries.js'
import { mapInSlices } from '../platform/turns.js'
import { keyOf } from '../rules/model/resources.js'
import { gameServerBuildDetail } from '../rules/model/wire.js'
import { shown } from '../rules/validation/problem.js'
import { readReservation, readStdin } from '../rules/validation/server-schema.js'
import type { Audit, AuditedSubject } from './audit.js'
import type { LeaderTerm } from './leader-term.js'
import { type ResourceView, toRef } from './resource-view.js'
import type { UsageMeter } from './server-usage.js'

export function buildCalls(term: LeaderTerm, view: ResourceView, audit: Audit): Builds {
  const engine = () => term.engine()
  const page: Builds['page'] = async (options = {}) => {
    checkNames('builds.page', options, ['limit', 'continue', 'signal'])
    throwIfAborted(options.signal)
    const entries = engine().inventory.builds.values()
    return readPage({ name: 'builds', entries, resource: (build) => view.build(build) }, options)
  }
  return Object.freeze<Builds>({
    async create(build, options = {}) {
      checkNames('builds.create', options, changeOptions)
      throwIfAborted(options.signal)
      const subjectOf = (created?: BuildEntry) => created && { build: created.ref }
      return view.build(await audit.call('createBuild', options, subjectOf, () => engine().builds.create(build)))
    },
    async apply(build, options = {}) {
      checkNames('builds.apply', options, changeOptions)
      throwIfAborted(options.signal)
      const subjectOf = (applied?: Applied) => applied && { build: applied.build.ref }
      const applied = await audit.call('applyBuild', options, subjectOf, () => engine().builds.apply(build))
      return { result: applied.result, build: view.build(applied.build) }
    },
    async get(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(view.findBuild(ref))
    },
    async list({ signal } = {}) {
      throwIfAborted(signal)
      return mapInSlices(term.engine().inventory.builds.values(), (build) => view.build(build))
    },
    page,
    all(options = {}) {
      checkNames('builds.all', options, ['limit', 'signal'])
      return itemsOf((next) => page({ ...options, continue: next }))
    },
    async patch(ref, change, options = {}) {
      checkNames('builds.patch', options, changeOptions)
      throwIfAborted(options.signal)
      const patch = () => engine().builds.patch(toRef(ref), change)
      return view.build(await audit.call('patchBuild', options, () => ({ build: toRef(ref) }), patch))
    },
    async update(ref, change, options = {}) {
      checkNames('builds.update', options, changeOptions)
      throwIfAborted(options.signal)
      const update = () => engine().builds.update(toRef(ref), change)
      return view.build(await audit.call('updateBuild', options, () => ({ build: toRef(ref) }), update))
    },
    async demand(ref, options = {}) {
      checkNames('builds.demand', options, ['signal'])
      throwIfAborted(options.signal)
      return engine().demand.read(view.findBuild(ref))
    },
    async drain(ref, options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      const build = view.findBuild(ref)
      audit.begun('drainBuild', options, { build: build.ref })
      return engine().drainBuild(build, options)
    },
    async resume(ref, options = {}) {
      checkNames('builds.resume', options, changeOptions)
      throwIfAborted(options.signal)
      const resume = () => engine().builds.setDraining(toRef(ref), false)
      return view.build(await audit.call('resumeBuild', options, () => ({ build: toRef(ref) }), resume))
    },
    async delete(ref, options = {}) {
      checkNames('builds.delete', options, changeOptions)
      throwIfAborted(options.signal)
      const remove = () => engine().builds.delete(toRef(ref))
      await audit.call('deleteBuild', options, () => ({ build: toRef(ref) }), remove)
    },
  })
}

export function serverCalls(
  term: LeaderTerm,
  view: ResourceView,
  backend: Backend,
  audit: Audit,
  usage: UsageMeter,
): Servers {
  const page: Servers['page'] = async (options = {}) => {
    checkNames('servers.page', options, ['build', 'limit', 'continue', 'signal'])
    throwIfAborted(options.signal)
    const build = options.build === undefined ? undefined : view.findBuild(options.build)
    const name = build ? `servers of ${keyOf(build.ref)}` : 'servers'
    const entries = build ? serversOf(build) : term.engine().inventory.servers.values()
    return readPage({ name, entries, resource: (entry) => view.server(entry) }, options)
  }
  return Object.freeze<Servers>({
    async get(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.server(view.findServer(ref))
    },
    async list(options = {}) {
      checkNames('servers.list', options, ['build', 'signal'])
      const { build, signal } = options
      throwIfAborted(signal)
      const all = build === undefined ? term.engine().inventory.servers.values() : serversOf(view.findBuild(build))
      return mapInSlices(all, (entry) => view.server(entry))
    },
    page,
    all(options = {}) {
      checkNames('servers.all', options, ['build', 'limit', 'signal'])
      return itemsOf((next) => page({ ...options, continue: next }))
    },
    async update(ref, change, options = {}) {
      checkNames('servers.update', options, changeOptions)
      throwIfAborted(options.signal)
      const entry = view.findServer(ref)
      const update = () => term.engine().serverData.update(entry, change)
      await audit.call('updateServer', options, () => subjectOf(entry), update)
      return view.server(entry)
    },
    async drain(ref, options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      const entry = view.findServer(ref)
      audit.begun('drainServer', options, subjectOf(entry))
      return term.engine().drainServer(entry, options)
    },
    async announceMaintenance(target, at, options = {}) {
      throwIfAborted(options.signal)
      const { maintenance } = term.engine()
      const entry = isNode(target) ? target : view.findServer(target)
      const announce = () =>
        'node' in entry ? maintenance.announceForNode(entry.node, at) : maintenance.announceForServer(entry, at)
      return { servers: await audit.call('announceMaintenance', options, () => subjectOf(entry), announce) }
    },
    async withdrawMaintenance(target, options = {}) {
      throwIfAborted(options.signal)
      const { maintenance } = term.engine()
      const entry = isNode(target) ? target : view.findServer(target)
      const withdraw = () =>
        'node' in entry ? maintenance.withdrawForNode(entry.node) : maintenance.withdrawForServer(entry)
      return { servers: await audit.call('withdrawMaintenance', options, () => subjectOf(entry), withdraw) }
    },
    ...reservationCalls(term, view, audit),
    async delete(ref, options = {}) {
      throwIfAborted(options.signal)
      const entry = view.findServer(ref)
      const remove = () => term.engine().deleteServer(entry)
      await audit.call('deleteServer', options, () => subjectOf(entry), remove)
    },
    logs(ref, options: LogsOptions = {}) {
      checkNames('logs', options, ['follow', 'tail', 'origin', 'signal'])
      if (!backend.logs) {
        throw new FleetError('unsupported', `the ${backend.name} backend keeps no logs of its servers`)
      }
      return masked(backend.logs(toRef(ref), options), view.secretMask(toRef(ref)))
    },
    async usage(ref, options = {}) {
      checkNames('servers.usage', options, ['signal'])
      throwIfAborted(options.signal)
      return usage.read(view.findServer(ref).ref, options.signal)
    },
    async writeStdin(ref, line, options = {}) {
      checkNames('servers.writeStdin', options, changeOptions)
      throwIfAborted(options.signal)
      const request = accepted(readStdin({ line }))
      const entry = view.findServer(ref)
      const write = async () => {
        if (!backend.writeStdin) {
          throw new FleetError('unsupported', `the ${backend.name} backend sends no input to its servers`)
        }
        await backend.writeStdin(entry.ref, `${request.line}\n`, options)
      }
      await audit.call('writeStdin', options, () => subjectOf(entry), write)
    },
  })
}

function reservationCalls(term: LeaderTerm, view: ResourceView, audit: Audit): Pick<Servers, 'release' | 'reserve'> {
  return {
    async reserve(ref, options) {
      checkOptions('servers.reserve', options, reserveOptions)
      throwIfAborted(options.signal)
      const { forMs } = accepted(readReservation({ forMs: options.forMs }))
      const entry = view.findServer(ref)
      const reserve = () => term.engine().reservations.reserve(entry, forMs)
      await audit.call('reserveServer', options, () => subjectOf(entry), reserve)
      return view.server(entry)
    },
    async release(ref, options = {}) {
      throwIfAborted(options.signal)
      checkNames('servers.release', options, changeOptions)
      const entry = view.findServer(ref)
      const release = () => term.engine().reservations.release(entry)
      await audit.call('releaseServer', options, () => subjectOf(entry), release)
      return view.server(entry)
    },
  }
}

/** `forMs` is checked with its limits. */
const reserveOptions: OptionTypes<ReserveOptions> = {
  forMs: required({ ...anything, must: 'must be a time in ms' }),
  signal: aSignal,
  caller: anObject,
}

/** Options of the calls that change something. */
const changeOptions = ['signal', 'caller'] as const

function subjectOf(target: ServerEntry | { readonly node: string }): AuditedSubject {
  return 'node' in target ? { node: target.node } : { build: target.build.ref, server: target.ref }
}

/** Throws `invalid` for a node that is not a name. */
function isNode(target: MaintenanceTarget): target is { readonly node: string } {
  // A server's name says more than its node.
  if (typeof target === 'string' || 'name' in target) return false
  if (typeof target.node !== 'string' || target.node === '') {
    throw new FleetError('invalid', `node must be a non-empty string, but is ${shown(target.node)}`)
  }
  return true
}

export function detailCalls(view: ResourceView): Details {
  return Object.freeze<Details>({
    async get(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.detail(view.findServer(ref))
    },
    async ofBuild(ref, { signal } = {}) {
      throwIfAborted(signal)
      const build = view.findBuild(ref)
      const details = await mapInSlices(serversOf(build), (entry) => view.detail(entry))
      return gameServerBuildDetail(build.record, details, view.apiGroup)
    },
  })
}

async function* masked(lines: AsyncIterable<string>, mask: (line: string) => string): AsyncGenerator<string> {
  for await (const line of lines) yield mask(line)
}

/** All of them, which the compiler checks. */
const drainOptions: Record<keyof DrainOptions, true> = { active: true, deadlineMs: true, signal: true, caller: true }

/** Throws `invalid` for an unknown value, so that a typo cannot end matches. */
export function checkDrainOptions(options: DrainOptions): void {
  checkNames('drain', options, Object.keys(drainOptions))
  const { active, deadlineMs } = options
  if (active !== undefined && active !== 'wait' && active !== 'terminate') {
    throw new FleetError('invalid', `active must be 'wait' or 'terminate', but is ${shown(active)}`)
  }
  if (deadlineMs !== undefined && !(Number.isFinite(deadlineMs) && deadlineMs >= 0)) {
    throw new FleetError('invalid', `deadlineMs must be a finite number ≥ 0, but is ${shown(deadlineMs)}`)
  }
}

// Reads one page of a list. The token for the next page names the list and the position of the page's last item.

const defaultLimit = 500
const maxLimit = 10_000

interface PagedList<E, T> {
  /** What is listed, including the filter: a token from another list is refused. */
  readonly name: string
  readonly entries: Iterable<E>
  readonly resource: (entry: E) => T
}

/** Throws `invalid` for a limit out of range and for a token that is not from this list. */
async function readPage<E extends { readonly record: Position }, T>(
  { name, entries, resource }: PagedList<E, T>,
  { limit = defaultLimit, continue: token }: PageOptions,
): Promise<Page<T>> {
  if (!Number.isInteger(limit) || limit < 1 || limit > maxLimit) {
    throw new FleetError('invalid', `limit must be an integer from 1 to ${maxLimit}, but is ${shown(limit)}`)
  }
  const after = token === undefined ? undefined : positionIn(token, name)
  // One more than the page has, to find out whether there is a next page.
  const found = firstAfter(entries, ({ record }) => record, after, limit + 1)
  const last = found.length > limit ? found[limit - 1] : undefined
  const items = await mapInSlices(found.slice(0, limit), resource)
  return { items, ...(last && { continue: tokenOf(name, last.record) }) }
}

function tokenOf(list: string, { createdAt, namespace, name }: Position): string {
  return Buffer.from(JSON.stringify([list, createdAt, namespace, name])).toString('base64url')
}

function positionIn(token: string, list: string): Position {
  const [ofList, createdAt, namespace, name] = partsOf(token)
  const isToken =
    typeof ofList === 'string' &&
    typeof createdAt === 'number' &&
    typeof namespace === 'string' &&
    typeof name === 'string'
  if (!isToken) {
    const message = `continue must be what the page before returned, but is ${shown(token)}; leave it out to start again`
    throw new FleetError('invalid', message)
  }
  if (ofList !== list) {
    const message = `continue is from a list of ${shown(ofList)}, but this is a list of ${shown(list)}; leave it out to start again`
    throw new FleetError('invalid', message)
  }
  return { createdAt, namespace, name }
}

function partsOf(token: unknown): readonly unknown[] {
  if (typeof token !== 'string') return []
  try {
    const parts: unknown = JSON.parse(Buffer.from(token, 'base64url').toString())
    return Array.isArray(parts) ? parts : []
  } catch {
    return []
  }
}

// Divides a list into pages. Items are ordered by creation time, then namespace and name, none of which ever changes: an item that
// exists while a caller reads all pages is on exactly one of them, whatever is created or deleted meanwhile.

/** An item's position in the list. */
export interface Position {
  /** Wall time in ms. */
  readonly createdAt: number
  readonly namespace: string
  readonly name: string
}

export function comparePositions(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || compareText(a.namespace, b.namespace) || compareText(a.name, b.name)
}

/** Returns the first `count` items after `after`, in order. Sorts only a few times `count` items, however many there are. */
export function firstAfter<T>(
  items: Iterable<T>,
  positionOf: (item: T) => Position,
  after: Position | undefined,
  count: number,
): readonly T[] {
  let found: T[] = []
  /** No item from here on is among the first `count`. */
  let end: Position | undefined
  const keepFirst = () => {
    found = found.toSorted((a, b) => comparePositions(positionOf(a), positionOf(b))).slice(0, count)
    const last = found.at(-1)
    if (last !== undefined && found.length === count) end = positionOf(last)
  }
  for (const item of items) {
    const position = positionOf(item)
    if (after !== undefined && comparePositions(position, after) <= 0) continue
    if (end !== undefined && comparePositions(position, end) >= 0) continue
    found.push(item)
    if (found.length >= 2 * count) keepFirst()
  }
  keepFirst()
  return found
}

function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
