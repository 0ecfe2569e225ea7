/** Picks random actions. The same seed makes the same choices, but the timing of real processes varies. */
import { backend } from '../e2e/backend.js'
import { endIdle, patch, rebuild } from './builds.js'
import { between, oneOf, type SoakContext } from './context.js'
import { endMatch, type Ending, killSupervisor, retryAllocation, startSession } from './sessions.js'

/** Starts a random action. Returns undefined if the action has no target. */
export function nextAction(context: SoakContext): Promise<void> | undefined {
  const { expected } = context
  const builds = [...expected.builds.values()]
  const build = oneOf(context, builds)
  const session = oneOf(context, expected.allocated())
  const isCrowded = expected.allocated().length > builds.reduce((sum, { highestMax }) => sum + highestMax, 0) * 0.6
  const draw = context.random() * 100
  if (draw < (isCrowded ? 25 : 45)) return build && startSession(context, build, waits(context))
  if (draw < 70) return endSomeMatch(context)
  // In a container, killing the first process kills all others.
  if (draw < 73 && backend === 'process') return session && killSupervisor(context, session)
  if (draw < 82) return session && retryAllocation(context, session)
  if (draw < 93) return build && patch(context, build)
  if (draw < 98) return build && endIdle(context, build)
  const event = expected.builds.get('event')
  return event && rebuild(context, event)
}

/** Ends a random match, mostly normally. */
export function endSomeMatch(context: SoakContext): Promise<void> | undefined {
  const session = oneOf(context, context.expected.allocated())
  const draw = context.random()
  const how: Ending =
    draw < 0.7 ? 'quit' : draw < 0.78 ? 'crash' : draw < 0.86 ? 'kill' : draw < 0.92 ? 'kill all' : 'delete'
  return session && endMatch(context, session, how)
}

/** Returns the wait time in seconds for each call. Some sessions get two concurrent calls. */
function waits(context: SoakContext): readonly number[] {
  const one = () => (context.random() < 0.4 ? 0 : between(context, 1, 15))
  return context.random() < 0.2 ? [one(), one()] : [one()]
}
