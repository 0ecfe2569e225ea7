/** The audit of calls that a host app makes itself. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, stage, untilReady } from './stage.js'

const caller = { name: 'matchmaker' }

async function ready(options: { readonly audit?: boolean } = {}) {
  const scene = stage()
  const fleet = await scene.open(options)
  await fleet.builds.create(aBuild({ standingBy: 2, max: 4 }))
  await untilReady(scene, fleet, 2)
  return { scene, fleet, audited: () => scene.eventsOf('Audited') }
}

describe('a call that names its caller', () => {
  it('is audited, and one that does not is not', async () => {
    const { scene, fleet, audited } = await ready()
    await fleet.builds.patch('arena', { standingBy: 1 })
    await fleet.allocate(ask(1))
    expect(audited()).toEqual([])
    await fleet.builds.update('arena', { max: 5 }, { caller })
    await fleet.allocate(ask(2), { caller: { kind: 'token', name: 'a'.repeat(300), address: '192.0.2.1' } })
    const [update, allocation] = audited()
    expect(update).toMatchObject({
      action: 'updateBuild',
      outcome: 'done',
      caller: { kind: 'host', name: 'matchmaker' },
    })
    expect(update?.message).toBe('host matchmaker updated build default/arena')
    expect(allocation).toMatchObject({
      action: 'allocate',
      sessionID: ask(2).sessionID,
      server: { namespace: 'default', name: expect.stringMatching(/^arena-/) },
      caller: { kind: 'token', name: 'a'.repeat(200), address: '192.0.2.1' },
      at: scene.clock.now(),
    })
    expect(allocation?.seq).toBeGreaterThan(0)
  })

  it('is audited with an unknown outcome if the store does not say whether it took the write', async () => {
    const { scene, fleet, audited } = await ready()
    scene.faults.store = ({ method }) => (method.startsWith('servers.') ? { kind: 'refuse' } : undefined)
    const failed = await failureOf(fleet.allocate(ask(1), { caller }))
    expect(failed.code).toBe('unavailable')
    expect(audited()).toMatchObject([{ action: 'allocate', outcome: 'unknown', sessionID: ask(1).sessionID }])
    expect(audited()[0]?.message).toMatch(/\(outcome unknown\)$/)
  })

  it('is not audited if it is rejected', async () => {
    const { fleet, audited } = await ready()
    await failureOf(fleet.builds.create(aBuild(), { caller }))
    await failureOf(fleet.builds.delete('nothing', { caller }))
    await failureOf(fleet.servers.drain('nothing', { caller }))
    await failureOf(fleet.allocate({ ...ask(1), buildID: 'nothing' }, { caller }))
    await failureOf(fleet.drain({ caller, deadlineMs: -1 }))
    expect(audited()).toEqual([])
  })

  it('is audited when it begins if it is a drain', async () => {
    const { scene, fleet, audited } = await ready()
    const [server] = await fleet.servers.list()
    const stop = new AbortController()
    const options = { caller, signal: stop.signal }
    const drains = [
      fleet.servers.drain(server?.metadata ?? '', options),
      fleet.builds.drain('arena', options),
      fleet.drain(options),
    ]
    await scene.clock.settle()
    expect(audited().map(({ action, outcome }) => [action, outcome])).toEqual([
      ['drainServer', 'begun'],
      ['drainBuild', 'begun'],
      ['drainFleet', 'begun'],
    ])
    stop.abort()
    await Promise.allSettled(drains)
  })

  it('is not audited with audit: false', async () => {
    const { fleet, audited } = await ready({ audit: false })
    await fleet.allocate(ask(1), { caller })
    await fleet.builds.patch('arena', { standingBy: 1 }, { caller })
    expect(audited()).toEqual([])
  })
})
