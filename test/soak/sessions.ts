/** Matchmaker and player actions: allocate sessions with retries, talk to games, and end matches. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { signalProcess } from '../../adapters/process/processes.js'
import { isAlive } from '../../src/platform/process-identity.js'
import { allocate, listServers, portOf, say } from '../e2e/client.js'
import { until } from '../e2e/until.js'
import type { Build, Session } from './expected-state.js'
import { runningIn } from './machine.js'
import { answered, count, manage, type SoakContext } from './context.js'

/** Starts a session by making one call per wait time, all concurrently. */
export async function startSession(context: SoakContext, build: Build, waits: readonly number[]): Promise<void> {
  const { expected } = context
  const session: Session = {
    sessionID: randomUUID(),
    build,
    requestedAt: performance.now(),
    state: 'pending',
    isConfirmed: false,
    isOrphaned: false,
    calls: 0,
  }
  expected.sessions.set(session.sessionID, session)
  expected.note(`allocate ${session.sessionID} of ${build.name}, wait ${waits.join(' and ')} s`)
  await Promise.all(waits.map((wait) => allocateSession(context, session, wait)))
  if (session.port === undefined) {
    session.state = build.deleted ? 'ended' : 'refused'
    count(context, 'sessions refused')
    return
  }
  await recordAllocation(context, session)
}

/** Repeats the allocation for a session that already has a server. */
export async function retryAllocation(context: SoakContext, session: Session): Promise<void> {
  const { port } = session
  await allocateSession(context, session, 0)
  if (session.port !== port)
    context.expected.violate(`session ${session.sessionID} had port ${port}, and now ${session.port}`)
  count(context, 'allocations repeated')
}

export const endings = ['quit', 'crash', 'kill', 'kill all', 'delete'] as const
export type Ending = (typeof endings)[number]

/** Ends a match: normally, by a crash or kill, or as an operator. */
export async function endMatch(context: SoakContext, session: Session, how: Ending): Promise<void> {
  const { expected } = context
  const { game, port = 0, server = '', build } = session
  if (!game || session.calls > 0) return
  expected.end(session)
  expected.note(`${how} session ${session.sessionID} on ${server}`)
  count(context, `matches ended by ${how}`)
  if ((how !== 'quit' && how !== 'delete') || session.isOrphaned) build.crashesCaused++
  if (how === 'delete') await manage(context, 'DELETE', `gameservers/default/${server}`)
  else await endGame(context, { server, port }, how)
  await until(`the game of ${server} has ended`, () => context.signal.aborted || !isAlive(game))
}

/** Kills only the supervisor of a match's server. The match must continue. */
export async function killSupervisor(context: SoakContext, session: Session): Promise<void> {
  const { dataDir, expected } = context
  const { server = '', sessionID } = session
  if (session.isOrphaned) return
  session.isOrphaned = true
  expected.note(`kill the supervisor of session ${sessionID} on ${server}`)
  for (const supervisor of runningIn(dataDir).supervisors.get(server) ?? []) signalProcess(supervisor, 'SIGKILL')
  count(context, 'supervisors of a match killed')
  await checkGame(context, session)
}

/** Ends a game's process. */
export async function endGame(
  { dataDir }: SoakContext,
  { server, port }: { readonly server: string; readonly port: number },
  how: Exclude<Ending, 'delete'>,
): Promise<void> {
  if (how === 'quit' || how === 'crash') {
    // The game exits before it answers.
    await say(port, how).catch(() => '')
    return
  }
  for (const game of runningIn(dataDir).games.get(server) ?? []) {
    signalProcess(game, 'SIGKILL')
  }
  if (how === 'kill all')
    for (const other of runningIn(dataDir).supervisors.get(server) ?? []) signalProcess(other, 'SIGKILL')
}

/** Checks that the game answers, and that it has its session once a host has had enough time to send it. */
export async function checkGame(context: SoakContext, session: Session): Promise<void> {
  const { expected, signal } = context
  const { sessionID, port = 0 } = session
  let failure: unknown
  for (let tries = 0; tries < 4 && !signal.aborted; tries++) {
    if (session.state !== 'allocated') return
    try {
      const answer = await say(port, 'hello soak')
      if (session.state === 'allocated') checkAnswer(context, session, answer)
      return
    } catch (error) {
      failure = error
      await pause(250)
    }
  }
  if (session.state !== 'allocated' || signal.aborted) return
  expected.violate(
    `the game of session ${sessionID} on ${session.server} does not answer on ${port}: ${String(failure)}`,
  )
  expected.end(session)
}

/** How long a game may take to get its session from a heartbeat reply, even on a busy machine or during a host restart. */
const confirmedAfterMs = 120_000

function checkAnswer({ expected }: SoakContext, session: Session, answer: string): void {
  const { sessionID, server, allocatedAt = 0 } = session
  if (answer.startsWith(`session ${sessionID} `)) session.isConfirmed = true
  else if (answer !== 'standing by' || session.isConfirmed || performance.now() - allocatedAt > confirmedAfterMs) {
    expected.violate(`the game of session ${sessionID} on ${server} answers "${answer}"`)
    expected.end(session)
  }
}

/** Sets the port of the session if the allocation succeeds. */
async function allocateSession(context: SoakContext, session: Session, wait: number): Promise<void> {
  const { expected, signal } = context
  const { sessionID, build } = session
  session.calls++
  try {
    for (;;) {
      const request = { buildID: build.buildID, sessionID, sessionCookie: 'soak' }
      const { status, body } = await answered(context, (apis) => allocate(apis, request, wait))
      if (status === 200) {
        const port = portOf(body.Ports)
        if (body.SessionID !== sessionID)
          expected.violate(`the allocation of ${sessionID} returned session ${body.SessionID}`)
        if (session.port !== undefined && session.port !== port && !build.deleted && !expected.mayHaveEnded(session)) {
          expected.violate(`session ${sessionID} got port ${session.port} first and then ${port}`)
        }
        session.port = port
        return
      }
      if (status === 429 || (status === 404 && build.deleted)) return
      if (status !== 503) {
        expected.violate(`allocate returned ${status}: ${body.error}`)
        return
      }
      count(context, 'allocations with status 503')
      await pause(200, undefined, { signal })
    }
  } finally {
    session.calls--
  }
}

/** Finds the server of an allocated session and adds it to the expected state. */
async function recordAllocation(context: SoakContext, session: Session): Promise<void> {
  const { expected, dataDir } = context
  const { sessionID, build, port } = session
  const servers = await answered(context, listServers)
  const server = servers.find(({ status }) => status.sessionID === sessionID)
  const name = server?.metadata.name ?? ''
  const game = runningIn(dataDir).games.get(name)?.[0]
  if (build.deleted || expected.mayHaveEnded(session)) {
    expected.end(session)
    count(context, 'sessions on a server that had just ended')
  } else if (!server) {
    expected.violate(`session ${sessionID} got port ${port}, but no server has it`)
    expected.end(session)
  } else if (portOf(server.status.ports) !== port) {
    expected.violate(`session ${sessionID} got port ${port}, but ${name} has ${server.status.ports}`)
    expected.end(session)
  } else if (!game) {
    expected.violate(`session ${sessionID} got ${name}, whose game is not running`)
    expected.end(session)
  } else {
    Object.assign(session, {
      server: name,
      game,
      state: 'allocated',
      allocatedAt: performance.now(),
    } satisfies Partial<Session>)
    expected.note(`session ${sessionID} has ${name}, port ${port}, process ${game.pid}`)
    count(context, 'sessions allocated')
  }
}
