/** Keeps one fleet of each name for the process, however often the module that creates it is loaded. */
import { FleetError } from '../contracts/errors.js'
import type { Fleet } from '../contracts/fleet.js'
import { shown } from '../rules/validation/problem.js'

/** On the global object, which the ESM and CommonJS copies of this file and every bundle of the app share. */
const key = Symbol.for('gamekeeper.fleets')

/**
 * Resolves with the fleet of this name, which the first call creates: `fleetOnce('arena', () => createFleet({ … }))`. For frameworks that load
 * an app's modules more than once in a process, such as Next.js, whose development server also loads a module again after each edit. Call it
 * where the fleet is used rather than when the module is loaded, so that a build of the app creates none. After `close`, and after a creation
 * that failed, the next call creates the fleet anew. Rejects as `create` does.
 */
export function fleetOnce(name: string, create: () => Promise<Fleet>): Promise<Fleet> {
  if (typeof name !== 'string' || name === '' || typeof create !== 'function') {
    const got = typeof name === 'string' && name !== '' ? shown(create) : shown(name)
    throw new FleetError('invalid', `fleetOnce takes a name and a function that creates the fleet, but got ${got}`)
  }
  const fleets = fleetsOfProcess()
  const known = fleets.get(name)
  if (known) return known
  const created = kept(create, () => void (fleets.get(name) === created && fleets.delete(name)))
  fleets.set(name, created)
  return created
}

async function kept(create: () => Promise<Fleet>, forget: () => void): Promise<Fleet> {
  try {
    const fleet = await create()
    return Object.freeze<Fleet>({
      ...fleet,
      async close() {
        await fleet.close()
        forget()
      },
    })
  } catch (error) {
    forget()
    throw error
  }
}

function fleetsOfProcess(): Map<string, Promise<Fleet>> {
  const holder: typeof globalThis & { [key]?: Map<string, Promise<Fleet>> } = globalThis
  return (holder[key] ??= new Map())
}
