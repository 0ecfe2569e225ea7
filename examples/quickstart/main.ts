import { randomUUID } from 'node:crypto'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'

// A game server as a child process of this machine. The same template runs on every backend.
const template = { spec: { containers: [{ name: 'game', command: ['node', 'examples/game-server/server.mjs'] }] } }
const backend = processBackend({ directory: '.gamekeeper/quickstart' })

// Finds builds, servers and sessions of before again. Port 0: game servers send their heartbeats to any free one.
const fleet = await createFleet({ backend, agent: { port: 0 } })

// Two servers stand by at all times, and there are never more than ten.
const buildID = 'arena-1.0'
const builds = await fleet.builds.list()
if (builds.length === 0) {
  await fleet.builds.create({
    metadata: { name: 'arena' },
    spec: { buildID, standingBy: 2, max: 10, portsToExpose: [7777], template },
  })
}

// One call hands out a server, and players can connect. The same session always gets the same one.
const sessionID = randomUUID()
const server = await fleet.allocate({ buildID, sessionID, initialPlayers: ['amie'] }, { waitMs: 30_000 })
console.log(server) // { IPV4Address: '127.0.0.1', Ports: '7777:10003', SessionID: … }

// A host that only closes leaves its game servers to the next one. This one ends them all.
await fleet.builds.delete('arena')
await fleet.drain()
await fleet.close()
