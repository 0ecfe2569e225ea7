/** `gamekeeper scale`, `drain`, `resume` and `delete`: changes to builds and servers. */
import { Argument, type Command } from 'commander'
import type { GameServer, GameServerBuild } from '../../client/index.js'
import { UsageError } from '../../config/usage-error.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { wholeNumber } from '../flags.js'
import { showProgress, type Terminal } from '../terminal.js'

const kinds = ['build', 'server'] as const
type Kind = (typeof kinds)[number]

export function addChanges(program: Command, terminal: Terminal): void {
  addScale(program, terminal)
  addDrain(program, terminal)
  addResume(program, terminal)
  addDelete(program, terminal)
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
    if (standingBy === undefined && max === undefined) throw new UsageError('scale needs --standing-by, --max or both')
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
    if (kind !== 'fleet' && name === undefined) throw new UsageError(`drain ${kind} needs the name of the ${kind}`)
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
    printServer(terminal, await client.servers.reserve(ref(server), { forMs: flags.for * 1000 }), flags)
  })
  const release = program
    .command('release')
    .description('End the reservation of a server.')
    .argument('<server>', 'Name of the server.')
  addClientOptions(release).action(async (server: string, flags: ClientFlags) => {
    const { client, ref } = await commandTarget(terminal, flags)
    printServer(terminal, await client.servers.release(ref(server)), flags)
  })
}

function printServer(terminal: Terminal, server: GameServer, { json }: ClientFlags): void {
  const { name } = server.metadata
  const { reservedUntil } = server.status
  const text =
    reservedUntil === undefined ? `server ${name} is not reserved` : `server ${name} is reserved until ${reservedUntil}`
  terminal.print(json ? JSON.stringify(server) : text)
}
