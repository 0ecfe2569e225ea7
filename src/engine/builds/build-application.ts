/** Decides whether applying a build creates it or changes the one that has its name, whatever other calls do meanwhile. */
import { FleetError } from '../../contracts/errors.js'
import type { ApplyResult } from '../../rules/model/resources.js'
import type { BuildEntry } from '../state/entries.js'

export interface Applied {
  readonly build: BuildEntry
  readonly result: ApplyResult
}

export interface ApplicationSteps {
  /** The build that has this name now. */
  find(): BuildEntry | undefined
  create(): Promise<BuildEntry>
  /** Resolves when no build of this name is being created. */
  created(): Promise<void>
  /** Reads back a build that was not found in the store, so that `find` no longer returns it if it was deleted. */
  refresh(build: BuildEntry): Promise<void>
  /** Resolves with false if the build has this spec already. */
  replace(build: BuildEntry): Promise<boolean>
}

/** Each further attempt means that the build was created or deleted during the one before. */
const maxAttempts = 5

export async function applyBuild(steps: ApplicationSteps): Promise<Applied> {
  for (let attempt = 1; ; attempt++) {
    const build = steps.find()
    try {
      if (!build) return { build: await steps.create(), result: 'created' }
      return { build, result: (await steps.replace(build)) ? 'updated' : 'unchanged' }
    } catch (error) {
      // The name was taken, or the build deleted, in the meantime. `exists` may also mean that another build has the buildID.
      if (!FleetError.is(error, build ? 'not-found' : 'exists') || attempt === maxAttempts) throw error
      if (build) await steps.refresh(build)
      else await steps.created()
    }
  }
}
