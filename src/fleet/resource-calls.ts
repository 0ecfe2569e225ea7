/**
 * The facade's calls for builds, servers and details. Each call checks its input, calls the engine, and returns resources.
 */
import type { Backend, LogsOptions } from '../contracts/backend.js'
import { accepted } from '../contracts/invalid-input.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
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
import { itemsOf } from '../contracts/call-options.js'
import type { Applied } from '../engine/builds/build-application.js'
import type { BuildEntry, ServerEntry } from '../engine/state/entries.js'
import { serversOf } from '../engine/state/queries.js'
import { mapInSlices } from '../platform/turns.js'
import { keyOf } from '../rules/model/resources.js'
import { gameServerBuildDetail } from '../rules/model/wire.js'
import { shown } from '../rules/validation/problem.js'
import { readReservation } from '../rules/validation/reservation.js'
import { readStdin } from '../rules/validation/stdin.js'
import type { Audit, AuditedSubject } from './audit.js'
import type { LeaderTerm } from './leadership/leader-term.js'
import { readPage } from './list-pages.js'
import { type ResourceView, toRef } from './resource-view.js'

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

export function serverCalls(term: LeaderTerm, view: ResourceView, backend: Backend, audit: Audit): Servers {
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
      checkNames('logs', options, ['follow', 'tail', 'signal'])
      if (!backend.logs) {
        throw new FleetError('unsupported', `the ${backend.name} backend keeps no logs of its servers`)
      }
      return masked(backend.logs(toRef(ref), options), view.secretMask(toRef(ref)))
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
const reserveOptions: OptionTypes<ReserveOptions> = { forMs: required(anything), signal: aSignal, caller: anObject }

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
