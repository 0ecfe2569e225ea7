import { randomUUID } from 'node:crypto'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'

const backend = processBackend({ directory: '.gamekeeper/quickstart' }) // game servers are child processes
const fleet = await createFleet({ backend, agent: { port: 0 } })

// A build specifies what to run, how many servers to keep standing by, and the maximum number of servers.
const buildID = 'arena-1.0'
const template = { spec: { containers: [{ name: 'game', command: ['node', 'examples/game-server/server.mjs'] }] } }
const spec = { buildID, standingBy: 2, max: 10, portsToExpose: [7777], template }
const builds = await fleet.builds.list() // an interrupted run may have left the build behind
if (builds.length === 0) await fleet.builds.create({ metadata: { name: 'arena' }, spec })

// Allocate a server for a match. The same sessionID always returns the same server.
const server = await fleet.allocate({ buildID, sessionID: randomUUID() }, { waitMs: 30_000 })
console.log(server) // { IPV4Address: '127.0.0.1', Ports: '7777:10003', SessionID: '…' }

await fleet.builds.delete('arena') // terminates its servers; without this they would keep running
await fleet.drain()
await fleet.close()
