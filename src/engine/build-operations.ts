/** Creates, patches and deletes builds: checked, durable before it is answered, and in force at once. */
import { FleetError } from '../contracts/errors.js'
import { transition } from '../rules/lifecycle/lifecycle.js'
import { isObject, type Problem, shown } from '../rules/validation/problem.js'
import { withCondition, withoutCondition } from '../rules/model/status.js'
import { type Build, keyOf, type Ref } from '../rules/model/resources.js'
import {
  type BuildInput,
  type BuildPatch,
  checkBounds,
  checkForBackend,
  readBuildInput,
  readPatch,
} from '../rules/validation/requests.js'
import type { Versioned } from '../contracts/store.js'
import type { BuildWriter } from './persistence/build-writer.js'
import { buildEvent, type EngineContext, refOf } from './context.js'
import type { BuildEntry } from './state/entries.js'
import { serversOf } from './state/queries.js'
import { lookUp } from './state/inventory.js'
import { isInvalid } from './reconcile/spec-validation.js'
import type { WaitQueue } from './allocation/wait-queue.js'

export interface BuildOperations {
  create(input: unknown): Promise<BuildEntry>
  patch(ref: Ref, change: unknown): Promise<BuildEntry>
  update(ref: Ref, change: unknown): Promise<BuildEntry>
  setDraining(ref: Ref, draining: boolean): Promise<BuildEntry>
  delete(ref: Ref): Promise<void>
  /** Its record is gone from the store: its callers are sent away, and its servers end. */
  forget(build: BuildEntry): void
  /** An edit has given it another buildID: those who wait for it asked for the old one. */
  renamed(build: BuildEntry, before: string): void
  /** Takes in a build that the store has and this host does not know; false when another has its name. */
  adopt(found: Versioned<Build>): boolean
  /** Looks for builds that may be in the store though their creation failed. Rejects when the store cannot be read. */
  findLost(): Promise<void>
  /** Throws `not-found`. */
  find(ref: Ref): BuildEntry
}

export interface BuildOperationDependencies {
  readonly writer: BuildWriter
  readonly room: WaitQueue
  /** Puts a record of the store into the inventory. */
  readonly load: (found: Versioned<Build>) => BuildEntry
}

export function buildOperations(
  ctx: EngineContext,
  { writer, room, load }: BuildOperationDependencies,
): BuildOperations {
  const { clock, inventory, store } = ctx
  /** Names and buildIDs of builds that are being created: taken already, though not in the inventory yet. */
  const taken = new Set<string>()
  /** Builds whose creation failed with nobody knowing what the store has of it, by name. */
  const lost = new Map<string, Build>()

  function find(ref: Ref): BuildEntry {
    const build = lookUp(inventory.builds, ref)
    if (!build) throw notFound(ref)
    return build
  }

  async function create(input: unknown): Promise<BuildEntry> {
    const checked = readBuildInput(input)
    if (!checked.ok) throw invalidField(checked.problem)
    const { metadata, spec } = checked.value
    const support = checkForBackend(spec, ctx.backend.capabilities.template)
    if (!support.ok) throw invalidField(support.problem)
    ctx.backend.check?.(spec)
    // One that was created after all is in the way of this one, and must be seen by whoever is told so.
    await findLost((build) => keyOf(build) === keyOf(metadata) || build.spec.buildID === spec.buildID)
    const claims = claim(checked.value)
    try {
      const build: Build = {
        namespace: metadata.namespace,
        name: metadata.name,
        uid: Buffer.from(clock.randomBytes(8)).toString('hex'),
        createdAt: clock.now(),
        spec,
        crashes: 0,
        countedCrashes: [],
        conditions: [],
      }
      const revision = await createRecord(build, claims)
      // The answer may come so late that a resync has found the record before.
      const found = lookUp(inventory.builds, build)
      const entry = found?.record.uid === build.uid ? found : inventory.addBuild(build, revision)
      ctx.emitter.emit({ type: 'BuildCreated', ...buildEvent(ctx, build, `build ${build.name} was created`) })
      tellSkipped(build, support.value.skipped)
      ctx.enqueue(entry)
      return entry
    } finally {
      for (const key of claims) taken.delete(key)
    }
  }

  function claim({ metadata, spec }: BuildInput): readonly string[] {
    const [name, id] = claimsOf(metadata, spec)
    if (inventory.builds.has(keyOf(metadata)) || taken.has(name)) {
      throw new FleetError('exists', `metadata.name ${keyOf(metadata)} is already the name of a build`)
    }
    const other = inventory.buildByID(spec.buildID)
    if (other || taken.has(id)) {
      const whose = other ? ` of build ${keyOf(other.record)}` : ''
      throw new FleetError('exists', `spec.buildID ${JSON.stringify(spec.buildID)} is already the buildID${whose}`)
    }
    taken.add(name)
    taken.add(id)
    return [name, id]
  }

  async function createRecord(build: Build, claims: readonly string[]): Promise<string> {
    try {
      return await store.builds.create(build)
    } catch (error) {
      // The answer may have been lost after the record was written, or the record be written yet.
      lost.set(keyOf(build), build)
      const current = await store.builds.get(build)
      const isKnown = current !== undefined && (current.record.uid === build.uid || adopt(current, claims))
      if (isKnown) lost.delete(keyOf(build))
      if (current?.record.uid === build.uid) return current.revision
      if (!FleetError.is(error, 'conflict')) throw error
      throw new FleetError('exists', `metadata.name ${keyOf(build)} is already the name of a build`, { cause: error })
    }
  }

  function adopt(found: Versioned<Build>, ownClaims: readonly string[] = []): boolean {
    const { record } = found
    if (ctx.stopped() || inventory.builds.has(keyOf(record))) return false
    if (claimsOf(record, record.spec).some((key) => taken.has(key) && !ownClaims.includes(key))) return false
    ctx.enqueue(load(found))
    return true
  }

  async function findLost(isWanted: (build: Build) => boolean = () => true): Promise<void> {
    for (const [key, build] of [...lost]) {
      if (!isWanted(build)) continue
      const current = await store.builds.get(build)
      // The store has one record of a name: a build that is known by it is this one.
      const isSettled = !current || inventory.builds.has(key) || adopt(current)
      if (isSettled && lost.get(key) === build) lost.delete(key)
    }
  }

  function tellSkipped(build: Build, fields: readonly string[]): void {
    if (fields.length === 0) return
    const message = `the ${ctx.backend.name} backend skips ${fields.join(', ')}`
    ctx.logger.info({ build: build.name, fields }, message)
    ctx.emitter.emit({ type: 'TemplateFieldsSkipped', ...buildEvent(ctx, build, message), fields })
  }

  async function patch(ref: Ref, change: unknown): Promise<BuildEntry> {
    const build = find(ref)
    const checked = readPatch(change)
    if (!checked.ok) throw invalidField(checked.problem)
    await writer.change(build, (record) => patched(record, checked.value))
    const { standingBy, max } = build.record.spec
    ctx.emitter.emit({
      type: 'BuildPatched',
      ...buildEvent(ctx, build.record, `build ${ref.name} has standingBy ${standingBy} and max ${max} now`),
      standingBy,
      max,
    })
    return build
  }

  async function update(ref: Ref, change: unknown): Promise<BuildEntry> {
    const build = find(ref)
    const support = ctx.backend.capabilities.template
    let skipped: readonly string[] = []
    await writer.change(build, (record) => {
      const next = updated(record, change)
      const honoured = checkForBackend(next.spec, support)
      if (!honoured.ok) throw invalidField(honoured.problem)
      ctx.backend.check?.(next.spec)
      skipped = honoured.value.skipped
      return next
    })
    ctx.emitter.emit({ type: 'BuildUpdated', ...buildEvent(ctx, build.record, `build ${ref.name} was updated`) })
    tellSkipped(build.record, skipped)
    return build
  }

  async function setDraining(ref: Ref, draining: boolean): Promise<BuildEntry> {
    const build = find(ref)
    const message = 'an operator drains it: nothing is handed out or created until it is resumed'
    await writer.change(build, (record) => ({
      ...record,
      conditions: draining
        ? withCondition(record.conditions, { type: 'Draining', reason: 'Drained', message, since: clock.now() })
        : withoutCondition(record.conditions, 'Draining'),
    }))
    if (draining) room.dismiss(new FleetError('draining', `build ${ref.name} is being drained`), build)
    return build
  }

  async function remove(ref: Ref): Promise<void> {
    const build = find(ref)
    try {
      await deleteRecord(build)
    } catch (error) {
      // It may be gone all the same: that will be looked at.
      writer.markUncertain(build)
      throw error
    }
    forget(build)
  }

  function forget(build: BuildEntry): void {
    if (build.deleted) return
    const { name } = build.record
    inventory.deleteBuild(build)
    room.dismiss(new FleetError('not-found', `build ${name} was deleted while the caller waited`), build)
    for (const entry of [...serversOf(build)]) {
      const event = { type: 'end' as const, reason: 'BuildDeleted' as const, message: `build ${name} was deleted` }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
    freeID()
    ctx.emitter.emit({ type: 'BuildDeleted', ...buildEvent(ctx, build.record, `build ${name} was deleted`) })
    ctx.enqueue(build)
  }

  function renamed(build: BuildEntry, before: string): void {
    const message = `build ${build.record.name} has no longer the buildID ${JSON.stringify(before)}`
    room.dismiss(new FleetError('not-found', message), build)
    freeID()
  }

  /** A build that had to wait for its buildID may have it now. */
  function freeID(): void {
    for (const other of inventory.builds.values()) if (isInvalid(other.record)) ctx.enqueue(other)
  }

  async function deleteRecord(build: BuildEntry): Promise<void> {
    for (let revision = build.revision; ;) {
      try {
        return await store.builds.delete(refOf(build.record), revision)
      } catch (error) {
        const current = await store.builds.get(build.record)
        if (current?.record.uid !== build.record.uid) return
        if (!FleetError.is(error, 'conflict')) throw error
        revision = current.revision
      }
    }
  }

  return {
    create,
    patch,
    update,
    setDraining,
    delete: remove,
    forget,
    renamed,
    adopt,
    findLost: () => findLost(),
    find,
  }
}

function claimsOf(ref: Ref, { buildID }: Pick<Build['spec'], 'buildID'>): readonly [string, string] {
  return [`name ${keyOf(ref)}`, `id ${buildID}`]
}

function patched(build: Build, change: BuildPatch): Build {
  const spec = { ...build.spec, ...change }
  const refusal = checkBounds(spec.standingBy, spec.max, '')
  if (refusal) throw invalidField(refusal.problem)
  return { ...build, spec }
}

function updated(build: Build, change: unknown): Build {
  if (!isObject(change)) throw new FleetError('invalid', `the change must be an object, but is ${shown(change)}`)
  if ('buildID' in change && change['buildID'] !== build.spec.buildID) {
    throw new FleetError('invalid', 'spec.buildID cannot be changed; create another build')
  }
  const spec = Object.fromEntries(
    Object.entries({ ...build.spec, ...change }).filter(([, value]) => value !== undefined),
  )
  const checked = readBuildInput({ metadata: refOf(build), spec })
  if (!checked.ok) throw invalidField(checked.problem)
  return { ...build, spec: checked.value.spec }
}

function invalidField(problem: Problem): FleetError {
  return new FleetError('invalid', `${problem.field} ${problem.message}`)
}

export function notFound(ref: Ref): FleetError {
  return new FleetError('not-found', `build ${keyOf(ref)} does not exist`)
}
