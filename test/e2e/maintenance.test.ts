/** Games that behave as those of the real GSDK clients, and one with gamekeeper/sdk, receive announced maintenance. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Fleet } from 'gamekeeper'
import { type GameEvent, gsdkClients, gsdkGame } from '../games/gsdk-game.js'
import { space } from './backend.js'
import { buildOf } from './client.js'
import { create, ownFleet } from './own-fleet.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const hour = 3_600_000

it(
  'each client calls its game with the announced time and schedule, and again after a restart of the host only if it changes',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const first = await ownFleet(place)
    for (const client of gsdkClients) {
      const command = gsdkGame(client)
      await create(first, buildOf({ name: client, buildID: client, standingBy: 1, max: 1, command }))
    }
    // Half of the games are in a match.
    const playing = gsdkClients.filter((_, index) => index % 2 === 0)
    for (const client of playing) {
      await first.allocate({ buildID: client, sessionID: randomUUID() }, { waitMs: 60_000 })
    }
    const names = await until('every game is ready', () => namesOf(first))
    const [early, late] = [secondsFrom(hour), secondsFrom(2 * hour)]
    for (const name of names.values()) {
      expect(await first.servers.announceMaintenance({ namespace: space(), name }, early)).toEqual({ servers: 1 })
    }
    for (const [client, name] of names) await toldOf(first, client, name, [early])
    // The games know the agent's port.
    const port = Number(first.agentAddress?.split(':').at(-1))
    await first.close()

    const second = await ownFleet(place, { agent: { port } })
    const node = (await second.servers.list())[0]?.status.nodeName ?? ''
    for (const name of names.values()) await second.servers.withdrawMaintenance({ namespace: space(), name })
    expect(await second.servers.announceMaintenance({ node }, late)).toEqual({ servers: gsdkClients.length })
    for (const [client, name] of names) await toldOf(second, client, name, [early, late], node)
    for (const { status } of await second.servers.list()) {
      expect(status).toMatchObject({ health: 'Healthy', nextScheduledMaintenance: late.toISOString() })
    }
  },
)

/** The server of each client, once all of them are ready or in their match. */
async function namesOf(fleet: Fleet): Promise<ReadonlyMap<string, string> | undefined> {
  const servers = await fleet.servers.list()
  const ready = servers.filter(({ status }) => status.state === 'StandingBy' || status.state === 'Active')
  if (ready.length < gsdkClients.length) return undefined
  return new Map(ready.map(({ metadata: { name } }) => [name.slice(0, name.lastIndexOf('-')), name]))
}

/** Resolves when the game has reported these times and no others, each once, and as many schedules. */
async function toldOf(
  fleet: Fleet,
  client: string,
  name: string,
  times: readonly Date[],
  node?: string,
): Promise<void> {
  const hasSchedule = client !== 'go' && client !== 'godot'
  const count = hasSchedule ? 2 * times.length : times.length
  const told = await until(`${name} is told ${times.length} times`, async () => {
    const events = await maintenanceEvents(fleet, name)
    return events.length >= count ? events : undefined
  })
  const begins = told.flatMap(({ beginsAt }) => (beginsAt === undefined ? [] : [beginsAt]))
  expect(begins).toEqual(times.map((time) => time.toISOString()))
  const schedules = told.flatMap(({ schedule }) => (schedule === undefined ? [] : [schedule]))
  expect(schedules).toHaveLength(hasSchedule ? times.length : 0)
  if (!hasSchedule) return
  const notBefore = `${times.at(-1)?.toISOString().slice(0, 19)}Z`
  const resources = [node ?? name]
  expect(schedules.at(-1)).toMatchObject({
    events: [{ eventType: 'Reboot', notBefore, resources, durationInSeconds: -1 }],
  })
}

async function maintenanceEvents(fleet: Fleet, name: string): Promise<readonly GameEvent[]> {
  const lines: string[] = []
  for await (const line of fleet.servers.logs({ namespace: space(), name })) lines.push(line)
  return lines.filter((line) => line.startsWith('{"event":"maintenance"')).map((line): GameEvent => JSON.parse(line))
}

function secondsFrom(ms: number): Date {
  return new Date(Math.floor((Date.now() + ms) / 1_000) * 1_000)
}
