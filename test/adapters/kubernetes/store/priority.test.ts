/** Which writes of servers go ahead of others: those that players wait for. */
import { expect, it } from 'vitest'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { ServerCollection } from '../../../../adapters/kubernetes/store/server-collection.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { minimalServer } from '../../../../src/testing/records.js'

it('an allocation has priority, also of a further session, and a later write of the same server has none', async () => {
  const writes: unknown[] = []
  let revision = 7
  const api = {
    async object({ priority, body }: { readonly priority?: boolean; readonly body: { readonly metadata: object } }) {
      writes.push(priority)
      return { ...body, metadata: { ...body.metadata, resourceVersion: String(++revision) } }
    },
  }
  const encryption = {
    encrypt: (token: string) => token,
    decrypt: (token: string) => ({ token }),
    isGenuine: () => true,
  }
  const collection = new ServerCollection(
    // @ts-expect-error Only what a write needs.
    { api, namespaces: undefined, throwIfClosed: () => {} },
    fleetResources(),
    encryption,
    { ownerByUid: () => undefined },
    {
      logger: silentLogger,
      editRefused: () => {},
      journal: {
        ...{ clock: systemClock, logger: silentLogger, term: () => undefined, key: () => undefined, warn: () => {} },
        storage: { read: async () => undefined, write: async () => '1' },
      },
    },
  )
  const idle = { ...minimalServer({ namespace: 'games', name: 'arena-1' }), state: 'StandingBy' as const }
  const session = { id: 'match', initialPlayers: [], number: 1, startedAt: 0 }
  const active = { ...idle, state: 'Active' as const, sessions: [session], startedSessions: 1 }
  let now = await collection.update(idle, '7')
  now = await collection.update(active, now)
  now = await collection.update(
    { ...active, data: { labels: { map: 'desert' }, annotations: {}, counters: {}, lists: {} } },
    now,
  )
  const more = { startedSessions: 2, sessions: [session, { ...session, id: 'another', number: 2 }] }
  now = await collection.update({ ...active, ...more }, now)
  await collection.update({ ...active, ...more, state: 'Terminating' }, now)
  expect(writes).toEqual([false, true, false, true, false])
})
