/** Why a build has no server standing by. */
import { describe, expect, it } from 'vitest'
import type { Condition, ConditionType } from '../../../src/rules/model/resources.js'
import { causeOfShortage, type Shortage } from '../../../src/rules/planning/server-choice.js'

const none: Shortage = { conditions: [], initializing: 0, pending: 0, pendingReason: undefined }
const conditionOf = (type: ConditionType): Condition => ({ type, reason: 'R', message: `because of ${type}`, since: 0 })
const conditions = (...types: ConditionType[]) => ({ conditions: types.map(conditionOf) })

describe('the cause of a shortage', () => {
  it.each<[string, Partial<Shortage>, string | undefined]>([
    ['is unknown if no server is being started', {}, undefined],
    [
      'is that a game is not ready',
      { initializing: 1 },
      '1 server is Initializing: its game has not called readyForPlayers()',
    ],
    [
      'is that games are not ready, which says more than servers that are Pending',
      { initializing: 2, pending: 1 },
      '2 servers are Initializing: their games have not called readyForPlayers()',
    ],
    ['is that a server is Pending', { pending: 1 }, '1 server is Pending'],
    [
      'is the reason of a Pending server',
      { pending: 3, pendingReason: 'no port is free' },
      '3 servers are Pending: no port is free',
    ],
    ['is a condition rather than a state', { ...conditions('Crashing'), initializing: 2 }, 'because of Crashing'],
    [
      'is the most specific condition',
      conditions('LateServers', 'Crashing', 'CreateBlocked'),
      'because of CreateBlocked',
    ],
    ['is no condition that does not concern starts', conditions('LongSession', 'Clamped'), undefined],
  ])('%s', (_, facts, cause) => expect(causeOfShortage({ ...none, ...facts })).toBe(cause))
})
