/**
 * Draws what is done next. A seed repeats what is drawn; what comes of it is up to real processes, and no run is quite
 * like another.
 */
import { backend } from '../e2e/backend.js'
import { endIdle, patch, rebuild } from './builds.js'
import { between, oneOf, type Scene } from './scene.js'
import { askAgain, begin, end, type Ending, orphan } from './sessions.js'

/** Begins one deed, which may take its time; undefined when there is nobody to do it to. */
export function nextDeed(scene: Scene): Promise<void> | undefined {
  const { ledger } = scene
  const builds = [...ledger.builds.values()]
  const build = oneOf(scene, builds)
  const session = oneOf(scene, ledger.held())
  const full = ledger.held().length > builds.reduce((sum, { mostMax }) => sum + mostMax, 0) * 0.6
  const drawn = scene.random() * 100
  if (drawn < (full ? 25 : 45)) return build && begin(scene, build, waits(scene))
  if (drawn < 70) return endOne(scene)
  // The first process of a container takes all others with it.
  if (drawn < 73 && backend === 'process') return session && orphan(scene, session)
  if (drawn < 82) return session && askAgain(scene, session)
  if (drawn < 93) return build && patch(scene, build)
  if (drawn < 98) return build && endIdle(scene, build)
  const event = ledger.builds.get('event')
  return event && rebuild(scene, event)
}

/** Most matches end well. */
export function endOne(scene: Scene): Promise<void> | undefined {
  const session = oneOf(scene, scene.ledger.held())
  const drawn = scene.random()
  const how: Ending =
    drawn < 0.7 ? 'quit' : drawn < 0.78 ? 'crash' : drawn < 0.86 ? 'kill' : drawn < 0.92 ? 'kill all' : 'delete'
  return session && end(scene, session, how)
}

/** Some ask twice at once. */
function waits(scene: Scene): readonly number[] {
  const one = () => (scene.random() < 0.4 ? 0 : between(scene, 1, 15))
  return scene.random() < 0.2 ? [one(), one()] : [one()]
}
