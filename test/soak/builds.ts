/** What operators do: builds are created, changed and deleted, and idle servers ended. */
import { backend } from '../e2e/backend.js'
import { randomUUID } from 'node:crypto'
import { buildOf, listBuilds, listServers, portOf } from '../e2e/client.js'
import { type Build, serversOf } from './ledger.js'
import { containedIn } from './machine.js'
import { answered, between, count, manage, oneOf, type Scene } from './scene.js'
import { endGame } from './sessions.js'

export async function createBuild(
  scene: Scene,
  { name, standingBy, max }: { readonly name: string; readonly standingBy: number; readonly max: number },
): Promise<void> {
  const { ledger } = scene
  const buildID = randomUUID()
  ledger.note(`create build ${name}`)
  const { status, body } = await manage(
    scene,
    'POST',
    'gameserverbuilds',
    buildOf({
      name,
      buildID,
      standingBy,
      max,
      crashesToMarkUnhealthy: 1_000_000,
      ...(backend === 'docker' && { env: { [containedIn]: scene.dataDir } }),
    }),
  )
  // An earlier try may have been heard, though not answered.
  const isThere = status === 200 || (await answered(scene, listBuilds)).some(({ spec }) => spec.buildID === buildID)
  if (!isThere) ledger.breach(`build ${name} could not be created: ${status} ${JSON.stringify(body)}`)
  ledger.builds.set(name, {
    ...{ name, buildID, standingBy, max, mostMax: max, ceiling: max },
    ...{ changing: false, changes: 0, deleted: false, crashesCaused: 0 },
  })
}

export async function deleteBuild(scene: Scene, build: Build): Promise<void> {
  const { ledger } = scene
  build.deleted = true
  build.changing = true
  for (const session of ledger.sessions.values()) {
    if (session.build === build && session.state === 'held') ledger.end(session)
  }
  ledger.note(`delete build ${build.name}`)
  const { status, body } = await manage(scene, 'DELETE', `gameserverbuilds/default/${build.name}`)
  // An earlier try may have been heard.
  if (status !== 200 && status !== 404) ledger.breach(`delete was answered ${status}: ${JSON.stringify(body)}`)
  ledger.builds.delete(build.name)
}

/** Its name is free at once. */
export async function rebuild(scene: Scene, build: Build): Promise<void> {
  if (build.changing) return
  await deleteBuild(scene, build)
  await createBuild(scene, { name: build.name, standingBy: build.standingBy, max: build.mostMax })
  count(scene, 'builds deleted and created again')
}

export async function patch(scene: Scene, build: Build): Promise<void> {
  const { ledger } = scene
  if (build.changing) return
  const max = between(scene, 1, build.mostMax)
  const standingBy = between(scene, 0, Math.min(4, max))
  build.changing = true
  ledger.note(`patch ${build.name} standingBy ${standingBy} max ${max}`)
  build.ceiling = Math.max(build.ceiling, max)
  const { status, body } = await manage(scene, 'PATCH', `gameserverbuilds/default/${build.name}`, { standingBy, max })
  if (status !== 200) ledger.breach(`patch was answered ${status}: ${JSON.stringify(body)}`)
  Object.assign(build, { max, standingBy, changing: false, changes: build.changes + 1 } satisfies Partial<Build>)
  count(scene, 'builds patched')
}

/** Ends a server that nobody has: its process, or through the API. A call that is on its way may have got it just now. */
export async function endIdle(scene: Scene, build: Build): Promise<void> {
  const { ledger } = scene
  const idle = serversOf(build, await answered(scene, listServers)).filter(
    ({ status }) => status.state === 'StandingBy',
  )
  const server = oneOf(scene, idle)?.metadata.name
  const port = portOf(idle.find(({ metadata }) => metadata.name === server)?.status.ports ?? '')
  const taken = [...ledger.sessions.values()].some(
    (session) => session.port === port && (session.state === 'asked' || session.state === 'held'),
  )
  if (server === undefined || build.deleted || taken) return
  const how = oneOf(scene, ['quit', 'crash', 'kill', 'kill all', 'delete', 'delete'] as const) ?? 'delete'
  ledger.victim(port, server)
  ledger.note(`${how} idle ${server} on port ${port}`)
  count(scene, `idle servers ended by ${how}`)
  if (how === 'delete') {
    await manage(scene, 'DELETE', `gameservers/default/${server}`)
    return
  }
  if (how !== 'quit') build.crashesCaused++
  await endGame(scene, { server, port }, how)
}
