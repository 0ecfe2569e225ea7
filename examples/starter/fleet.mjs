// @ts-check
/** What the host app and its test share: the build, and the call that starts a match. */
export const build = {
  metadata: { name: 'arena' },
  spec: {
    buildID: 'arena-1',
    standingBy: 2, // ready for the next matches
    max: 10,
    run: {
      // The node and the game of the machine or image that the game runs on: found on the PATH, and in its working directory.
      command: ['node', 'game.mjs'],
      ports: [{ name: 'game', port: 7777 }],
    },
  },
}

/**
 * Starts a match, or returns the one that this session already has.
 *
 * @param {Pick<import('gamekeeper').Fleet, 'allocate'>} fleet
 * @param {string} sessionID
 * @param {readonly string[]} players
 */
export async function startMatch(fleet, sessionID, players) {
  const server = await fleet.allocate(
    { buildID: build.spec.buildID, sessionID, initialPlayers: [...players] },
    { waitMs: 30_000, confirm: true },
  )
  return { address: server.address, port: server.port('game') }
}
