/** Operator actions: create, patch and delete builds, and end idle servers. */
import { backend } from '../e2e/backend.js'
import { randomUUID } from 'node:crypto'
import { buildOf, listBuilds, listServers, portOf } from '../e2e/client.js'
import { type Build, serversOf } from './expected-state.js'
import { containedIn } from './machine.js'
import { answered, between, count, manage, oneOf, type SoakContext } from './context.js'
import { endGame } from './sessions.js'

export async function createBuild(
  context: SoakContext,
  { name, standingBy, max }: { readonly name: string; readonly standingBy: number; readonly max: number },
): Promise<void> {
  const { expected } = context
  const buildID = randomUUID()
  expected.note(`create build ${name}`)
  const { status, body } = await manage(
    context,
    'POST',
    'gameserverbuilds',
    buildOf({
      name,
      buildID,
      standingBy,
      max,
      crashesToMarkUnhealthy: 1_000_000,
      ...(backend === 'docker' && { env: { [containedIn]: context.dataDir } }),
    }),
  )
  // An earlier attempt may have succeeded although its reply was lost.
  const exists = status === 200 || (await answered(context, listBuilds)).some(({ spec }) => spec.buildID === buildID)
  if (!exists) expected.violate(`build ${name} could not be created: ${status} ${JSON.stringify(body)}`)
  expected.builds.set(name, {
    ...{ name, buildID, standingBy, max, highestMax: max, ceiling: max },
    ...{ changing: false, changes: 0, deleted: false, crashesCaused: 0 },
  })
}

export async function deleteBuild(context: SoakContext, build: Build): Promise<void> {
  const { expected } = context
  build.deleted = true
  build.changing = true
  for (const session of expected.sessions.values()) {
    if (session.build === build && session.state === 'allocated') expected.end(session)
  }
  expected.note(`delete build ${build.name}`)
  const { status, body } = await manage(context, 'DELETE', `gameserverbuilds/default/${build.name}`)
  // 404 is fine, since an earlier attempt may have deleted the build.
  if (status !== 200 && status !== 404) expected.violate(`delete returned ${status}: ${JSON.stringify(body)}`)
  expected.builds.delete(build.name)
}

/** Deletes a build and creates a new one with the same name. */
export async function rebuild(context: SoakContext, build: Build): Promise<void> {
  if (build.changing) return
  await deleteBuild(context, build)
  await createBuild(context, { name: build.name, standingBy: build.standingBy, max: build.highestMax })
  count(context, 'builds deleted and created again')
}

export async function patch(context: SoakContext, build: Build): Promise<void> {
  const { expected } = context
  if (build.changing) return
  const max = between(context, 1, build.highestMax)
  const standingBy = between(context, 0, Math.min(4, max))
  build.changing = true
  expected.note(`patch ${build.name} standingBy ${standingBy} max ${max}`)
  build.ceiling = Math.max(build.ceiling, max)
  const { status, body } = await manage(context, 'PATCH', `gameserverbuilds/default/${build.name}`, { standingBy, max })
  if (status !== 200) expected.violate(`patch returned ${status}: ${JSON.stringify(body)}`)
  Object.assign(build, { max, standingBy, changing: false, changes: build.changes + 1 } satisfies Partial<Build>)
  count(context, 'builds patched')
}

/** Ends a StandingBy server, directly or through the API. A concurrent call may have allocated the server meanwhile. */
export async function endIdle(context: SoakContext, build: Build): Promise<void> {
  const { expected } = context
  const idle = serversOf(build, await answered(context, listServers)).filter(
    ({ status }) => status.state === 'StandingBy',
  )
  const server = oneOf(context, idle)?.metadata.name
  const port = portOf(idle.find(({ metadata }) => metadata.name === server)?.status.ports ?? '')
  const taken = [...expected.sessions.values()].some(
    (session) => session.port === port && (session.state === 'pending' || session.state === 'allocated'),
  )
  if (server === undefined || build.deleted || taken) return
  const how = oneOf(context, ['quit', 'crash', 'kill', 'kill all', 'delete', 'delete'] as const) ?? 'delete'
  expected.serverEnded(port, server)
  expected.note(`${how} idle ${server} on port ${port}`)
  count(context, `idle servers ended by ${how}`)
  if (how === 'delete') {
    await manage(context, 'DELETE', `gameservers/default/${server}`)
    return
  }
  if (how !== 'quit') build.crashesCaused++
  await endGame(context, { server, port }, how)
}
