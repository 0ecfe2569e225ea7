/** Creates builds with a unique name and buildID, and adopts builds that are in the store but not in the inventory. */
import { FleetError } from '../../contracts/errors.js'
import type { Versioned } from '../../contracts/store.js'
import { type Build, keyOf, type Ref } from '../../rules/model/resources.js'
import type { BuildInput } from '../../rules/validation/build-schema.js'
import type { WaitQueue } from '../allocation/wait-queue.js'
import { buildEvent, type EngineContext } from '../context.js'
import type { Loader } from '../persistence/loader.js'
import type { EventReporter } from '../reporting/event-reporter.js'
import type { BuildEntry } from '../state/entries.js'
import { lookUp } from '../state/inventory.js'
import { buildIDTaken, checkMax, invalidField, nameTaken, readForBackend } from './build-edits.js'

export interface BuildCreationDependencies {
  readonly events: EventReporter
  readonly loader: Pick<Loader, 'loadBuild'>
  /** Its callers may get servers of a build that has come. */
  readonly waitQueue: Pick<WaitQueue, 'reconsider'>
}

export class BuildCreation {
  readonly #ctx: EngineContext
  readonly #deps: BuildCreationDependencies
  /** Names and buildIDs of builds that are being created. Each value resolves when that creation has ended. */
  readonly #claimed = new Map<string, Promise<void>>()
  /** Builds whose creation failed but that may be in the store, by key. */
  readonly #uncertain = new Map<string, Build>()

  constructor(ctx: EngineContext, deps: BuildCreationDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Creates a build. Throws `invalid`, `exists`, or the store's error. */
  async create(input: unknown): Promise<BuildEntry> {
    const { clock, emitter, inventory, limits } = this.#ctx
    const checked = readForBackend(input, this.#ctx.backend)
    const { metadata, spec } = checked.input
    const tooMany = checkMax(spec.max, limits.maxServersPerBuild, 'spec.')
    if (tooMany) throw invalidField(tooMany.problem)
    // An earlier creation that seemed to fail may have succeeded after all. If that build conflicts with this one, adopt it
    // first, so that the caller can see it.
    await this.#recover((build) => keyOf(build) === keyOf(metadata) || build.spec.buildID === spec.buildID)
    let ended = () => {}
    const claims = this.#claim(checked.input, new Promise((resolve) => (ended = resolve)))
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
      const revision = await this.#createRecord(build, claims)
      // If the store answers late, a resync may already have found the record.
      const found = lookUp(inventory.builds, build)
      const entry = found?.record.uid === build.uid ? found : inventory.addBuild(build, revision)
      emitter.emit({ type: 'BuildCreated', ...buildEvent(this.#ctx, build, `build ${build.name} was created`) })
      this.#deps.events.fieldsSkipped(build, checked.skipped)
      // If the record has been adopted, that has reported them.
      if (entry !== found) this.#deps.events.metadataKeys(build)
      this.#ctx.enqueue(entry)
      this.#deps.waitQueue.reconsider(spec)
      return entry
    } finally {
      for (const key of claims) this.#claimed.delete(key)
      ended()
    }
  }

  /** Resolves when no build of this name is being created. */
  async settled(ref: Ref): Promise<void> {
    await this.#claimed.get(nameClaim(ref))
  }

  /** Adds a build from the store to the inventory. Returns false if another build has its name or buildID. */
  adopt(found: Versioned<Build>, ownClaims: readonly string[] = []): boolean {
    const { record } = found
    if (this.#ctx.stopped() || this.#ctx.inventory.builds.has(keyOf(record))) return false
    if (claimsOf(record, record.spec).some((key) => this.#claimed.has(key) && !ownClaims.includes(key))) return false
    this.#ctx.enqueue(this.#deps.loader.loadBuild(found))
    this.#deps.waitQueue.reconsider(record.spec)
    this.#deps.events.metadataKeys(record)
    return true
  }

  /** Adopts builds that are in the store although their creation failed. Rejects if the store cannot be read. */
  recoverUncertain(): Promise<void> {
    return this.#recover(() => true)
  }

  #claim({ metadata, spec }: BuildInput, ended: Promise<void>): readonly string[] {
    const { inventory } = this.#ctx
    const [name, id] = claimsOf(metadata, spec)
    if (inventory.builds.has(keyOf(metadata)) || this.#claimed.has(name)) throw nameTaken(metadata)
    const owner = inventory.buildByID(spec.buildID)
    if (owner || this.#claimed.has(id)) throw buildIDTaken(spec.buildID, owner?.record)
    this.#claimed.set(name, ended).set(id, ended)
    return [name, id]
  }

  async #createRecord(build: Build, claims: readonly string[]): Promise<string> {
    const { store } = this.#ctx
    try {
      return await store.builds.create(build)
    } catch (error) {
      // The write may have succeeded although the call failed, or may still take effect.
      this.#uncertain.set(keyOf(build), build)
      const current = await store.builds.get(build)
      const isInInventory = current !== undefined && (current.record.uid === build.uid || this.adopt(current, claims))
      if (isInInventory) this.#uncertain.delete(keyOf(build))
      if (current?.record.uid === build.uid) return current.revision
      if (!FleetError.is(error, 'conflict')) throw error
      throw nameTaken(build, error)
    }
  }

  async #recover(isWanted: (build: Build) => boolean): Promise<void> {
    const { inventory, store } = this.#ctx
    for (const [key, build] of [...this.#uncertain]) {
      if (!isWanted(build)) continue
      const current = await store.builds.get(build)
      // The store has one record per name, so a build of that name in the inventory is this one.
      const isSettled = !current || inventory.builds.has(key) || this.adopt(current)
      if (isSettled && this.#uncertain.get(key) === build) this.#uncertain.delete(key)
    }
  }
}

function claimsOf(ref: Ref, { buildID }: Pick<Build['spec'], 'buildID'>): readonly [string, string] {
  return [nameClaim(ref), `id ${buildID}`]
}

function nameClaim(ref: Ref): string {
  return `name ${keyOf(ref)}`
}
