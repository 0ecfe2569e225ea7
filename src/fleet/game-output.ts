/** Passes on what the games of a fleet for development print, from the start of each to its end. */
import type { GameOutput } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { Fleet } from '../contracts/fleet.js'

/** Returns a function that resolves when the output of all games, which must have ended, has been passed on. */
export function followGameOutput(fleet: Pick<Fleet, 'on' | 'servers'>, output: GameOutput): () => Promise<void> {
  const following = new Map<string, Promise<void>>()
  const unlisten = fleet.on('*', (event) => {
    const started = event.type === 'ServerStateChanged' || event.type === 'ServerEnding'
    if (!started || following.has(event.server.name)) return
    const { name } = event.server
    const followed = follow(fleet, event.server, output)
    following.set(name, followed)
  })
  return async () => {
    unlisten()
    await Promise.all(following.values())
  }
}

async function follow(
  fleet: Pick<Fleet, 'servers'>,
  server: { readonly namespace: string; readonly name: string },
  output: GameOutput,
): Promise<void> {
  try {
    for await (const line of fleet.servers.logs(server, { follow: true })) output(server.name, line)
  } catch (error) {
    // A server that never ran has no log.
    if (!FleetError.is(error)) throw error
  }
}
