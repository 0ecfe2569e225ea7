/**
 * Sends a heartbeat to the URL in its arguments every 100 ms, and prints how long each answer took, in ms, one per line. A process of its
 * own, so that a busy event loop of the abuses does not count. Exits when its stdin ends.
 */
import { Agent, request } from 'node:http'

const intervalMs = 100
const [url = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
const body = JSON.stringify({ CurrentGameState: 'Active', CurrentGameHealth: 'Healthy', CurrentPlayers: [] })
const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }

function beat() {
  const sentAt = performance.now()
  request(url, { method: 'PATCH', agent, headers }, (response) => {
    response.resume().on('end', () => console.log(performance.now() - sentAt))
  })
    .on('error', () => {})
    .end(body)
}

setInterval(beat, intervalMs)
process.stdin.resume().on('end', () => process.exit())
