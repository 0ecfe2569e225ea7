/** `gamekeeper scale`, `drain`, `resume`, `delete` and `end`: changes to builds, servers and sessions. */
import { Argument, type Command } from 'commander'
import type { GameServerBuild } from '../../client/index.js'
import { CommandLineError } from '../../config/usage-error.js'
import { FleetError } from '../../contracts/errors.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { wholeNumber } from '../flags.js'
import { sessionNamed } from '../stored-fleet.js'
import { showProgress, type Terminal } from '../terminal.js'

const kinds = ['build', 'server'] as const
type Kind = (typeof kinds)[number]

export function addChanges(program: Command, terminal: Terminal): void {
  addScale(program, terminal)
  addDrain(program, terminal)
  addResume(program, terminal)
  addDelete(program, terminal)
  addEnd(program, terminal)
}

interface ScaleFlags extends ClientFlags {
  readonly standingBy?: number
  readonly max?: number
}

function addScale(program: Command, terminal: Terminal): void {
  const command = program
    .command('scale')
    .description('Change how many servers of a build stand by, and how many there may be. Never ends a match.')
    .argument('<build>', 'Name of the build.')
    .option('--standing-by <number>', 'Servers to keep standing by.', wholeNumber(0, 999_999))
    .option('--max <number>', 'Servers to run at most.', wholeNumber(0, 999_999))
  addClientOptions(command).action(async (build: string, flags: ScaleFlags) => {
    const { standingBy, max } = flags
    if (standingBy === undefined && max === undefined)
      throw new CommandLineError('scale needs --standing-by, --max or both')
    const { client, ref } = await commandTarget(terminal, flags)
    const change = { ...(standingBy !== undefined && { standingBy }), ...(max !== undefined && { max }) }
    printBuild(terminal, await client.builds.patch(ref(build), change), flags)
  })
}

interface DrainFlags extends ClientFlags {
  readonly terminate?: boolean
  readonly deadline?: number
}

function addDrain(program: Command, terminal: Terminal): void {
  const command = program
    .command('drain')
    .description(
      'Stop allocating, terminate idle servers and wait for matches. A build stays drained until it is resumed.',
    )
    .addArgument(new Argument('<kind>', 'What to drain.').choices([...kinds, 'fleet']))
    .argument('[name]', 'Name of the build or server.')
    .option('--terminate', 'Terminate servers with a match, too.')
    .option('--deadline <seconds>', 'Stop waiting after this time. The drain goes on.', wholeNumber(0, 999_999))
  addClientOptions(command).action(async (kind: Kind | 'fleet', name: string | undefined, flags: DrainFlags) => {
    if (kind !== 'fleet' && name === undefined)
      throw new CommandLineError(`drain ${kind} needs the name of the ${kind}`)
    const { client, ref } = await commandTarget(terminal, flags)
    const signal = terminal.interruption()
    const { terminate = false, deadline } = flags
    const options = {
      ...({ active: terminate ? 'terminate' : 'wait', signal } as const),
      ...(deadline !== undefined && { deadlineMs: deadline * 1000 }),
    }
    const drain = () => {
      if (kind === 'fleet') return client.drain(options)
      return kind === 'build'
        ? client.builds.drain(ref(name ?? ''), options)
        : client.servers.drain(ref(name ?? ''), options)
    }
    const stop = showProgress(terminal, client, ['DrainProgress', 'ServerRemoved'])
    signal.addEventListener('abort', () => terminal.note('the drain goes on; resume ends it'))
    const { remaining } = await drain().finally(stop)
    if (flags.json) terminal.print(JSON.stringify({ remaining }))
    else terminal.print(remaining === 0 ? 'drained' : `${remaining} left at the deadline; the drain goes on`)
  })
}

function addResume(program: Command, terminal: Terminal): void {
  const command = program
    .command('resume')
    .description('End the drain of a build.')
    .argument('<build>', 'Name of the build.')
  addClientOptions(command).action(async (build: string, flags: ClientFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    printBuild(terminal, await client.builds.resume(ref(build)), flags)
  })
}

function addDelete(program: Command, terminal: Terminal): void {
  const command = program
    .command('delete')
    .description('Delete a build with all its servers, or terminate a server, even during a match.')
    .addArgument(new Argument('<kind>', 'What to delete.').choices(kinds))
    .argument('<name>', 'Name of the build or server.')
  addClientOptions(command).action(async (kind: Kind, name: string, flags: ClientFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    const stop = showProgress(terminal, client, ['ServerRemoved'])
    const deleted = kind === 'build' ? client.builds.delete(ref(name)) : client.servers.delete(ref(name))
    await deleted.finally(stop)
    terminal.print(flags.json ? JSON.stringify({ kind, ...ref(name) }) : `${kind} ${name} deleted`)
  })
}

function addEnd(program: Command, terminal: Terminal): void {
  const command = program
    .command('end')
    .description('End a session, and with it its server, unless its game runs several sessions.')
    .argument('<session>', 'Id of the session, or its first 6 characters or more.')
  addClientOptions(command).action(async (text: string, flags: ClientFlags) => {
    const { client } = await commandTarget(terminal, flags)
    const { sessionID, state } = await sessionNamed(client, text)
    const isOver = state === 'Ended' || (await endsMeanwhile(client.sessions.end(sessionID)))
    const said = isOver ? `session ${sessionID} was over already` : `session ${sessionID} ended`
    terminal.print(flags.json ? JSON.stringify({ sessionID, wasOver: isOver }) : said)
  })
}

/** Resolves when the session is being ended: to true if it has ended on its own since it was found. */
async function endsMeanwhile(end: Promise<void>): Promise<boolean> {
  try {
    await end
    return false
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return true
    throw error
  }
}

function printBuild(terminal: Terminal, build: GameServerBuild, { json }: ClientFlags): void {
  const { metadata, spec, status } = build
  const ready = `${status.currentStandingByReadyDesired} standing by, at most ${spec.max}`
  terminal.print(json ? JSON.stringify(build) : `build ${metadata.name}: ${ready}`)
}

// `gamekeeper reserve` and `release`: keeps a server for later.

interface ReserveFlags extends ClientFlags {
  readonly for: number
}

export function addReservations(program: Command, terminal: Terminal): void {
  const reserve = program
    .command('reserve')
    .description(
      'Reserve an idle server: only requests that name it get it, and it is neither scaled down nor replaced. Renews a reservation.',
    )
    .argument('<server>', 'Name of the server.')
    .requiredOption(
      '--for <seconds>',
      'How long, from now on. At most 604800, which is 7 days.',
      wholeNumber(1, 604_800),
    )
  addClientOptions(reserve).action(async (server: string, flags: ReserveFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    const reserved = await client.servers.reserve(ref(server), { forMs: flags.for * 1000 })
    const text = `server ${server} is reserved until ${reserved.status.reservedUntil ?? ''}`
    terminal.print(flags.json ? JSON.stringify(reserved) : text)
  })
  const release = program
    .command('release')
    .description('End the reservation of a server.')
    .argument('<server>', 'Name of the server.')
  addClientOptions(release).action(async (server: string, flags: ClientFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    const before = await client.servers.get(ref(server))
    const after = await client.servers.release(ref(server))
    const wasReserved = before.status.reservedUntil !== undefined
    const text = wasReserved ? `server ${server} is released` : `server ${server} was not reserved`
    terminal.print(flags.json ? JSON.stringify(after) : text)
  })
}
