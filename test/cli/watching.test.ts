/** What commands do with ids that are cut, and while they watch. */
import { describe, expect, it } from 'vitest'
import type { FleetClient } from '../../src/client/index.js'
import { keepShowing } from '../../src/cli/commands/get.js'
import { sessionNamed } from '../../src/cli/stored-fleet.js'
import { FleetError } from '../../src/contracts/errors.js'

const first = 'b3a1c8d2-0000-4000-8000-000000000001'
const second = 'b3a1c8ff-0000-4000-8000-000000000002'

function sessionsWith(...ids: readonly string[]) {
  const all = ids.map((sessionID) => ({ sessionID }))
  const get = async (id: string) => {
    const one = all.find(({ sessionID }) => sessionID === id)
    if (!one) throw new FleetError('not-found', `no ${id}`)
    return one
  }
  return { sessions: { get, list: async () => all, ofPlayer: get } } as unknown as Parameters<typeof sessionNamed>[0]
}

describe('a session', () => {
  it('is named by its id, or by the beginning of a GUID that no other begins with', async () => {
    const fleet = sessionsWith(first, second)
    expect(await sessionNamed(fleet, first)).toEqual({ sessionID: first })
    expect(await sessionNamed(fleet, 'B3A1C8D2')).toEqual({ sessionID: first })
    await expect(sessionNamed(fleet, 'b3a1c8')).rejects.toThrow('2 sessions begin with b3a1c8: write more of the id')
    await expect(sessionNamed(fleet, 'b3a1c')).rejects.toMatchObject({ code: 'not-found' })
  })

  it('with another id is not taken for one that begins like it', async () => {
    await expect(sessionNamed(sessionsWith('match-123'), 'match-12')).rejects.toMatchObject({ code: 'not-found' })
    await expect(sessionNamed(sessionsWith('abcdef12'), 'abcdef')).rejects.toMatchObject({ code: 'not-found' })
  })
})

describe('what is watched', () => {
  /** One event, and then none. */
  function clientWith() {
    async function* events({ signal }: { readonly signal: AbortSignal }) {
      yield { type: 'BuildChanged' }
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    }
    return { events } as unknown as FleetClient
  }

  it('stays, with a note, while the host is away', async () => {
    const stop = new AbortController()
    const notes: string[] = []
    let shown = 0
    await keepShowing(clientWith(), stop.signal, {
      show: async () => {
        if (++shown > 1) throw new FleetError('unavailable', 'the host does not answer')
      },
      stale: (note) => {
        notes.push(note)
        stop.abort()
      },
    })
    expect(notes).toEqual([expect.stringMatching(/^data from \d\d:\d\d:\d\d, retrying: the host does not answer$/)])
  })

  it('ends with an error that waiting does not mend, and at once if it cannot be shown at all', async () => {
    const { signal } = new AbortController()
    const stale = () => expect.unreachable()
    const refused = new FleetError('forbidden', 'not with this token')
    let shown = 0
    const later = {
      show: async () => {
        if (++shown > 1) throw refused
      },
      stale,
    }
    await expect(keepShowing(clientWith(), signal, later)).rejects.toBe(refused)
    const never = { show: () => Promise.reject(new FleetError('unavailable', 'no')), stale }
    await expect(keepShowing(clientWith(), signal, never)).rejects.toMatchObject({ code: 'unavailable' })
  })
})
