import { describe, expect, it, vi } from 'vitest'
import { maintenanceNotice } from '../../src/rules/game/heartbeat.js'
import { fakeAgent, recordingLogger, says, sessionConfig, startAgainst, until } from './fake-agent.js'

const at = Date.UTC(2026, 10, 22, 20, 15, 30)
const announces = (ms: number, more: object = {}) => says('Continue', { ...maintenanceNotice(ms, 'node-1'), ...more })

async function beats(agent: { readonly beats: readonly unknown[] }, count = 3): Promise<void> {
  const before = agent.beats.length
  await until(() => agent.beats.length >= before + count)
}

describe('onMaintenance', () => {
  it('calls back once for each announced time, in any state', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const onMaintenance = vi.fn()
    gsdk.onMaintenance(onMaintenance)
    await beats(agent)
    expect(onMaintenance).not.toHaveBeenCalled()
    agent.reply = announces(at)
    await beats(agent)
    expect(onMaintenance.mock.calls).toEqual([[new Date(at)]])
    agent.reply = says('Active', { sessionConfig, ...maintenanceNotice(at - 60_000, 'node-1') })
    await gsdk.readyForPlayers()
    agent.reply = announces(at - 60_000, { sessionConfig })
    await beats(agent)
    expect(onMaintenance.mock.calls).toEqual([[new Date(at)], [new Date(at - 60_000)]])
  })

  it('calls a callback at once that is added later', async () => {
    const agent = await fakeAgent()
    agent.reply = announces(at)
    const gsdk = await startAgainst(agent)
    await beats(agent)
    const onMaintenance = vi.fn()
    gsdk.onMaintenance(onMaintenance)
    expect(onMaintenance.mock.calls).toEqual([[new Date(at)]])
    await beats(agent)
    expect(onMaintenance).toHaveBeenCalledTimes(1)
  })

  it('does not call again when an answer in between lacks the time, as that of a host that does not lead', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const onMaintenance = vi.fn()
    gsdk.onMaintenance(onMaintenance)
    for (const reply of [announces(at), says('Continue'), announces(at)]) {
      agent.reply = reply
      await beats(agent)
    }
    expect(onMaintenance).toHaveBeenCalledTimes(1)
  })

  it('ends neither the game nor its heartbeats if a callback fails', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const gsdk = await startAgainst(agent, { logger })
    const last = vi.fn()
    gsdk.onMaintenance(() => {
      throw new Error('thrown')
    })
    gsdk.onMaintenance(() => Promise.reject(new Error('rejected')))
    gsdk.onMaintenance(last)
    agent.reply = announces(at)
    await beats(agent)
    expect(last).toHaveBeenCalledTimes(1)
    expect(logger.error.mock.calls).toEqual([
      [{ err: new Error('thrown') }, 'an onMaintenance callback failed'],
      [{ err: new Error('rejected') }, 'an onMaintenance callback failed'],
    ])
    expect(gsdk.state).toBe('Initializing')
  })

  it.each([null, '', 'soon', 7, {}])('ignores the time %j of another agent', async (nextScheduledMaintenanceUtc) => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const onMaintenance = vi.fn()
    gsdk.onMaintenance(onMaintenance)
    agent.reply = says('Continue', { nextScheduledMaintenanceUtc })
    await beats(agent)
    expect(onMaintenance).not.toHaveBeenCalled()
  })

  it('reads a time with fractions of a second, as the agent of PlayFab sends', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const onMaintenance = vi.fn()
    gsdk.onMaintenance(onMaintenance)
    agent.reply = says('Continue', { nextScheduledMaintenanceUtc: '2018-04-12T16:58:30.1458776Z' })
    await beats(agent)
    expect(onMaintenance.mock.calls).toEqual([[new Date('2018-04-12T16:58:30.145Z')]])
  })
})
