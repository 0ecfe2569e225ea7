// @ts-check
/** The game server. One process runs one match: it waits for a session, lets players talk, and exits when they have left. */
import { createServer } from 'node:net'
import { start } from 'gamekeeper/sdk'

const gsdk = await start({ onTerminate: () => process.exit(0) })

/** @type {Set<import('node:net').Socket>} */
const players = new Set()

const server = createServer((player) => {
  players.add(player)
  gsdk.updateConnectedPlayers([...players].map((_, index) => `player-${index + 1}`))
  player.write('welcome; what you type is sent to every player\n')
  player.on('data', (line) => players.forEach((other) => other.write(line)))
  player.on('error', () => {}) // 'close' follows
  player.on('close', () => {
    players.delete(player)
    // The match is over. The fleet starts a new server in place of this one.
    if (players.size === 0) process.exit(0)
  })
})

// All servers of a machine share its ports, so the fleet says on which one to listen.
const port = gsdk.config.port('game').listening
server.listen(port, () => console.log(`listening on ${port}`))

const session = await gsdk.readyForPlayers()
console.log(`match ${session.sessionId} begins, expecting ${session.initialPlayers.join(' and ') || 'any players'}`)
