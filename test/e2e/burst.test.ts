/** Many concurrent callers: each gets a different server, and there are never more than max. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { backend } from './backend.js'
import { allocate, type Answer, buildOf, createBuild, getBuild, listServers, liveOf, recount } from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { repeatedly, until } from './until.js'
import { workplace } from './workplace.js'

/** A cluster with one node takes seconds per pod. */
const max = backend === 'kubernetes' ? 20 : 40
const callers = max + 10
const buildID = randomUUID()

it(`${callers} concurrent callers get ${max} different servers and ten rejections`, { timeout: 400_000 }, async () => {
  const { dataDir, running } = await workplace()
  const host = await startHost({
    DATA_DIR: dataDir,
    PORT_RANGE: portRangeText('burst'),
    SAMPLE: 'off',
    LOG_LEVEL: 'warn',
  })
  await createBuild(host, buildOf({ name: 'burst', buildID, standingBy: 10, max }))
  await until(
    'ten servers are standing by',
    async () => (await getBuild(host, 'burst')).status.currentStandingBy === 10,
  )

  let most = 0
  const stopWatching = repeatedly(async () => {
    most = Math.max(most, liveOf(await listServers(host, 'burst')))
  })

  const sessions = Array.from({ length: callers }, () => randomUUID())
  const answers = new Map<string, Answer<{ readonly Ports: string; readonly error?: string }>>()
  const request = async (sessionID: string) => answers.set(sessionID, await allocate(host, { buildID, sessionID }, 60))
  const refused = () => sessions.filter((sessionID) => answers.get(sessionID)?.status !== 200)
  await Promise.all(sessions.map(request))
  // On a slow machine not all servers start within 20 s; refused callers retry like a matchmaker.
  while (refused().length > 10) await Promise.all(refused().map(request))

  const granted = sessions.filter((sessionID) => answers.get(sessionID)?.status === 200)
  expect(granted).toHaveLength(max)
  expect(new Set(granted.map((sessionID) => answers.get(sessionID)?.body.Ports)).size).toBe(max)
  for (const sessionID of refused()) {
    const { status, body } = answers.get(sessionID) ?? {}
    expect({ status, body }).toMatchObject({ status: 429, body: { error: expect.stringContaining(`max is ${max}`) } })
  }

  await stopWatching()
  expect(most).toBe(max)
  const servers = await listServers(host, 'burst')
  const { status } = await getBuild(host, 'burst')
  expect(recount(servers)).toEqual({ Pending: 0, Initializing: 0, StandingBy: 0, Active: max, Terminating: 0 })
  expect(status).toMatchObject({
    currentActive: max,
    currentStandingBy: 0,
    currentPending: 0,
    currentInitializing: 0,
    currentStandingByReadyDesired: '0/10',
    crashesCount: 0,
  })
  expect(servers.map((server) => server.status.sessionID ?? '').toSorted()).toEqual(granted.toSorted())
  expect(await running()).toHaveLength(max)
})
