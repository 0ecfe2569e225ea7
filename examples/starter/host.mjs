// @ts-check
/** The host app: keeps the fleet, and starts a match for `POST /matches`. */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'
import { build, startMatch } from './fleet.mjs'

// Games run in the working directory of the host app.
process.chdir(import.meta.dirname)

const { PORT = '3000', HOST = '127.0.0.1', PUBLIC_ADDRESS = '127.0.0.1' } = process.env
const portRange = { first: 10_000, last: 10_099 }
const fleet = await createFleet({ backend: processBackend({ publicAddress: PUBLIC_ADDRESS, portRange }) })
await fleet.builds.apply(build) // creates the build, or updates it after an edit

const server = createServer((request, response) => {
  if (request.method !== 'POST' || request.url !== '/matches') {
    response.writeHead(404).end()
    return
  }
  startMatch(fleet, randomUUID(), ['amie', 'bob']).then(
    (match) => response.end(`${JSON.stringify(match)}\n`),
    (error) => response.writeHead(503).end(`${error.message}\n`),
  )
})
server.listen(Number(PORT), HOST, () => console.log(`POST http://${HOST}:${PORT}/matches starts a match`))

// Ctrl-C in a terminal ends the game servers, and so does SIGQUIT. SIGTERM, and a SIGINT from a process manager such as pm2, leave
// them running for a deployment: the next start takes them over.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT']) process.once(signal, () => void stop(signal))

/** @param {string} signal */
async function stop(signal) {
  server.close()
  const endsGames = signal === 'SIGQUIT' || (signal === 'SIGINT' && process.stdin.isTTY)
  if (endsGames) await fleet.drain({ active: 'terminate', deadlineMs: 10_000 })
  await fleet.close()
  process.exit(0)
}
