/** Sessions as a matchmaker and its players see them: asked for until somebody answers, played, and ended. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { signalProcess } from '../../adapters/process/process-group.js'
import { isAlive } from '../../src/platform/process-identity.js'
import { allocate, listServers, portOf, say } from '../e2e/client.js'
import { until } from '../e2e/until.js'
import type { Build, Session } from './ledger.js'
import { runningIn } from './machine.js'
import { answered, count, manage, type Scene } from './scene.js'

/** Asks for a new session, once for each wait and at the same time. */
export async function begin(scene: Scene, build: Build, waits: readonly number[]): Promise<void> {
  const { ledger } = scene
  const session: Session = {
    sessionID: randomUUID(),
    build,
    askedAt: performance.now(),
    state: 'asked',
    known: false,
    orphaned: false,
    calls: 0,
  }
  ledger.sessions.set(session.sessionID, session)
  ledger.note(`allocate ${session.sessionID} of ${build.name}, waits ${waits.join(' and ')}`)
  await Promise.all(waits.map((wait) => ask(scene, session, wait)))
  if (session.port === undefined) {
    session.state = build.deleted ? 'ended' : 'refused'
    count(scene, 'sessions refused')
    return
  }
  await take(scene, session)
}

/** A caller that has lost the answer, or asks twice for another reason. */
export async function askAgain(scene: Scene, session: Session): Promise<void> {
  const { port } = session
  await ask(scene, session, 0)
  if (session.port !== port) scene.ledger.breach(`session ${session.sessionID} had port ${port}, now ${session.port}`)
  count(scene, 'sessions asked for again')
}

export const endings = ['quit', 'crash', 'kill', 'kill all', 'delete'] as const
export type Ending = (typeof endings)[number]

/** Ends a match as its game or its operator would, or worse. */
export async function end(scene: Scene, session: Session, how: Ending): Promise<void> {
  const { ledger } = scene
  const { game, port = 0, server = '', build } = session
  if (!game || session.calls > 0) return
  ledger.end(session)
  ledger.note(`${how} session ${session.sessionID} on ${server}`)
  count(scene, `matches ended by ${how}`)
  if ((how !== 'quit' && how !== 'delete') || session.orphaned) build.crashesCaused++
  if (how === 'delete') await manage(scene, 'DELETE', `gameservers/default/${server}`)
  else await endGame(scene, { server, port }, how)
  await until(`the game of ${server} has ended`, () => scene.signal.aborted || !isAlive(game))
}

/** The supervisor of a match is killed and nothing else: the match goes on. */
export async function orphan(scene: Scene, session: Session): Promise<void> {
  const { dataDir, ledger } = scene
  const { server = '', sessionID } = session
  if (session.orphaned) return
  session.orphaned = true
  ledger.note(`kill the supervisor of session ${sessionID} on ${server}`)
  for (const supervisor of runningIn(dataDir).supervisors.get(server) ?? []) signalProcess(supervisor, 'SIGKILL')
  count(scene, 'supervisors killed under a match')
  await hello(scene, session)
}

/** Ends the process of a game, whoever has it. */
export async function endGame(
  { dataDir }: Scene,
  { server, port }: { readonly server: string; readonly port: number },
  how: Exclude<Ending, 'delete'>,
): Promise<void> {
  if (how === 'quit' || how === 'crash') {
    // It is gone before it could answer.
    await say(port, how).catch(() => '')
    return
  }
  for (const game of runningIn(dataDir).games.get(server) ?? []) {
    signalProcess(game, 'SIGKILL')
  }
  if (how === 'kill all')
    for (const other of runningIn(dataDir).supervisors.get(server) ?? []) signalProcess(other, 'SIGKILL')
}

/** Its game must answer, and know of this session as soon as a host could have told it. */
export async function hello(scene: Scene, session: Session): Promise<void> {
  const { ledger, signal } = scene
  const { sessionID, port = 0 } = session
  let failure: unknown
  for (let tries = 0; tries < 4 && !signal.aborted; tries++) {
    if (session.state !== 'held') return
    try {
      const answer = await say(port, 'hello soak')
      if (session.state === 'held') judgeAnswer(scene, session, answer)
      return
    } catch (error) {
      failure = error
      await pause(250)
    }
  }
  if (session.state !== 'held' || signal.aborted) return
  ledger.breach(`the game of session ${sessionID} on ${session.server} does not answer on ${port}: ${String(failure)}`)
  ledger.end(session)
}

/** A host tells with its next answer to a heartbeat; a busy machine, or one without a host, takes its time. */
const knownAfterMs = 120_000

function judgeAnswer({ ledger }: Scene, session: Session, answer: string): void {
  const { sessionID, server, heldAt = 0 } = session
  if (answer.startsWith(`session ${sessionID} `)) session.known = true
  else if (answer !== 'standing by' || session.known || performance.now() - heldAt > knownAfterMs) {
    ledger.breach(`the game of session ${sessionID} on ${server} answers "${answer}"`)
    ledger.end(session)
  }
}

/** Sets the port that was answered; leaves it when there was no server to have. */
async function ask(scene: Scene, session: Session, wait: number): Promise<void> {
  const { ledger, signal } = scene
  const { sessionID, build } = session
  session.calls++
  try {
    for (;;) {
      const request = { buildID: build.buildID, sessionID, sessionCookie: 'soak' }
      const { status, body } = await answered(scene, (apis) => allocate(apis, request, wait))
      if (status === 200) {
        const port = portOf(body.Ports)
        if (body.SessionID !== sessionID) ledger.breach(`asked for ${sessionID}, got ${body.SessionID}`)
        if (session.port !== undefined && session.port !== port && !build.deleted && !ledger.mayBeVictim(session)) {
          ledger.breach(`session ${sessionID} was told port ${session.port}, then ${port}`)
        }
        session.port = port
        return
      }
      if (status === 429 || (status === 404 && build.deleted)) return
      if (status !== 503) {
        ledger.breach(`allocate was answered ${status}: ${body.error}`)
        return
      }
      count(scene, 'allocations answered 503')
      await pause(200, undefined, { signal })
    }
  } finally {
    session.calls--
  }
}

/** Finds out who plays it, and holds the fleet to it from now on. */
async function take(scene: Scene, session: Session): Promise<void> {
  const { ledger, dataDir } = scene
  const { sessionID, build, port } = session
  const servers = await answered(scene, listServers)
  const server = servers.find(({ status }) => status.sessionID === sessionID)
  const name = server?.metadata.name ?? ''
  const game = runningIn(dataDir).games.get(name)?.[0]
  if (build.deleted || ledger.mayBeVictim(session)) {
    ledger.end(session)
    count(scene, 'sessions on a server that was just ended')
  } else if (!server) {
    ledger.breach(`session ${sessionID} was given port ${port}, and no server has it`)
    ledger.end(session)
  } else if (portOf(server.status.ports) !== port) {
    ledger.breach(`session ${sessionID} was given port ${port}, but ${name} has ${server.status.ports}`)
    ledger.end(session)
  } else if (!game) {
    ledger.breach(`session ${sessionID} was given ${name}, whose game does not run`)
    ledger.end(session)
  } else {
    Object.assign(session, { server: name, game, state: 'held', heldAt: performance.now() } satisfies Partial<Session>)
    ledger.note(`session ${sessionID} has ${name}, port ${port}, process ${game.pid}`)
    count(scene, 'sessions held')
  }
}
