/** `gamekeeper reserve` and `release`: keeps a server for later. */
import type { Command } from 'commander'
import type { GameServer } from '../../client/index.js'
import { addClientOptions, type ClientFlags, targetOf } from '../client.js'
import { wholeNumber } from '../numbers.js'
import type { Terminal } from '../terminal.js'

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
    const { client, ref } = await targetOf(terminal, flags)
    printServer(terminal, await client.servers.reserve(ref(server), { forMs: flags.for * 1000 }), flags)
  })
  const release = program
    .command('release')
    .description('End the reservation of a server.')
    .argument('<server>', 'Name of the server.')
  addClientOptions(release).action(async (server: string, flags: ClientFlags) => {
    const { client, ref } = await targetOf(terminal, flags)
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
