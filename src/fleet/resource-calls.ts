/**
 * The facade's calls for builds, servers and details. Each call checks its input, calls the engine, and returns resources.
 */
import type { Backend, LogsOptions } from '../contracts/backend.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import type { Builds, Details, Servers } from '../contracts/fleet.js'
import type { DrainOptions } from '../contracts/options.js'
import { serversOf } from '../engine/state/queries.js'
import { gameServerBuildDetail } from '../rules/model/wire.js'
import { shown } from '../rules/validation/problem.js'
import type { LeaderTerm } from './leader-term.js'
import { type ResourceView, toRef } from './resource-view.js'

export function buildCalls(term: LeaderTerm, view: ResourceView): Builds {
  return Object.freeze<Builds>({
    async create(build, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(await term.engine().builds.create(build))
    },
    async get(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(view.findBuild(ref))
    },
    async list({ signal } = {}) {
      throwIfAborted(signal)
      return [...term.engine().inventory.builds.values()].map((build) => view.build(build))
    },
    async patch(ref, change, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(await term.engine().builds.patch(toRef(ref), change))
    },
    async update(ref, change, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(await term.engine().builds.update(toRef(ref), change))
    },
    async drain(ref, options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      return term.engine().drainBuild(view.findBuild(ref), options)
    },
    async resume(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.build(await term.engine().builds.setDraining(toRef(ref), false))
    },
    async delete(ref, { signal } = {}) {
      throwIfAborted(signal)
      await term.engine().builds.delete(toRef(ref))
    },
  })
}

export function serverCalls(term: LeaderTerm, view: ResourceView, backend: Backend): Servers {
  return Object.freeze<Servers>({
    async get(ref, { signal } = {}) {
      throwIfAborted(signal)
      return view.server(view.findServer(ref))
    },
    async list({ build, signal } = {}) {
      throwIfAborted(signal)
      const all = build === undefined ? term.engine().inventory.servers.values() : serversOf(view.findBuild(build))
      return [...all].map((entry) => view.server(entry))
    },
    async drain(ref, options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      return term.engine().drainServer(view.findServer(ref), options)
    },
    async delete(ref, { signal } = {}) {
      throwIfAborted(signal)
      await term.engine().deleteServer(view.findServer(ref))
    },
    logs(ref, options: LogsOptions = {}) {
      if (!backend.logs) {
        throw new FleetError('unsupported', `the ${backend.name} backend keeps no logs of its servers`)
      }
      return backend.logs(toRef(ref), options)
    },
  })
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
      const details = Array.from(serversOf(build), (entry) => view.detail(entry))
      return gameServerBuildDetail(build.record, details, view.apiGroup)
    },
  })
}

/** Throws `invalid` for an unknown value, so that a typo cannot end matches. */
export function checkDrainOptions({ active, deadlineMs }: DrainOptions): void {
  if (active !== undefined && active !== 'wait' && active !== 'terminate') {
    throw new FleetError('invalid', `active must be 'wait' or 'terminate', but is ${shown(active)}`)
  }
  if (deadlineMs !== undefined && !(Number.isFinite(deadlineMs) && deadlineMs >= 0)) {
    throw new FleetError('invalid', `deadlineMs must be a finite number ≥ 0, but is ${shown(deadlineMs)}`)
  }
}
