/** `gamekeeper allocate`: starts a session on a server. */
import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import type { Allocation } from '../../client/index.js'
import { CommandLineError } from '../../config/usage-error.js'
import { addClientOptions, type ClientFlags, commandTarget } from '../client.js'
import { oneLine } from '../../server/log.js'
import { wholeNumber } from '../flags.js'
import { showProgress, type Terminal } from '../terminal.js'

interface AllocateFlags extends ClientFlags {
  readonly server?: string
  readonly session?: string
  readonly cookie?: string
  readonly player?: readonly string[]
  readonly wait?: number
  readonly confirm?: boolean
}

export function addAllocate(program: Command, terminal: Terminal): void {
  const command = program
    .command('allocate')
    .description('Allocate a server of a build, or the server that is named, to a session.')
    .argument('[buildID]', 'spec.buildID of the build. Absent with --server.')
    .option('--server <name>', 'The server to take, also if it is reserved.')
    .option('--session <id>', 'Session. The same one gets the same server again. Default: a new one.')
    .option('--cookie <text>', 'Session cookie, which the game receives.')
    .option('--player <id...>', 'Players that the game should expect.')
    .option(
      '--wait <seconds>',
      'How long to wait if none is standing by. Default: 0. A server allows 60, unless its host app says otherwise.',
      wholeNumber(0, 999_999),
    )
    .option('--confirm', 'Wait until the game has its session.')
  addClientOptions(command).action(async (buildID: string | undefined, flags: AllocateFlags) => {
    const { server } = flags
    const named = buildID === undefined ? server !== undefined && { server } : server === undefined && { buildID }
    if (!named) throw new CommandLineError('allocate needs either a buildID or --server')
    const { client, ref } = await commandTarget(terminal, flags)
    const signal = terminal.interruption()
    const { session = randomUUID(), cookie, player = [], wait, confirm = false } = flags
    const stop = wait === undefined ? () => {} : showProgress(terminal, client, ['BuildPreparing', 'ServerStartFailed'])
    const request = {
      ...('server' in named ? { server: ref(named.server) } : named),
      sessionID: session,
      ...(cookie !== undefined && { sessionCookie: cookie }),
      initialPlayers: player,
    }
    const options = { confirm, signal, ...(wait !== undefined && { waitMs: wait * 1000 }) }
    const allocation = await client.allocate(request, options).finally(stop)
    if (flags.json) terminal.print(JSON.stringify(allocation))
    else terminal.print(oneLine(inWords(allocation)))
    const { buildMismatch } = allocation
    if (buildMismatch)
      terminal.note(`the session already had a server of build ${buildMismatch.actual}, not ${buildMismatch.requested}`)
  })
}

/** A server with a compatibility format tells neither its name nor those of its ports. */
function inWords({ SessionID: session, server: { namespace, name }, address, ports }: Allocation): string {
  const host = address.includes(':') ? `[${address}]` : address
  const shown = ports.map((port) => `${host}:${port.public} (${port.name}, ${port.protocol})`).join(', ')
  return `session ${session} is on ${name === '' ? '' : `server ${namespace}/${name} at `}${shown || address}`
}
