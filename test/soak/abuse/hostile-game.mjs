/** A game server that sends hostile heartbeats in its own name, and then reports StandingBy like any other. */
import { readFileSync } from 'node:fs'

const { heartbeatEndpoint, sessionHostId } = JSON.parse(readFileSync(process.env['GSDK_CONFIG_FILE'] ?? '', 'utf8'))
const url = `http://${heartbeatEndpoint}/v1/sessionHosts/`
const healthy = { CurrentGameHealth: 'Healthy', CurrentPlayers: [] }
const players = Array.from({ length: 5_000 }, (_, i) => ({ PlayerId: `player-${i}` }))

const bodies = [
  JSON.stringify({ ...healthy, CurrentGameState: 'Initializing', CurrentPlayers: players }),
  JSON.stringify({ ...healthy, CurrentGameState: 'Initializing', CurrentPlayers: [{ PlayerId: 'é'.repeat(60_000) }] }),
  JSON.stringify({ ...healthy, CurrentGameState: '\u0000\u009b' }),
  JSON.stringify({ ...healthy, CurrentGameState: 'Terminated', CurrentGameHealth: 7 }),
  '['.repeat(200_000),
  '{"CurrentGameState":',
  'x'.repeat(300_000),
]
for (const body of bodies) {
  for (const id of [sessionHostId, `live-abcde.${'0'.repeat(20)}`]) {
    await fetch(url + id, { method: 'PATCH', body }).then(
      (response) => response.text(),
      () => undefined,
    )
  }
}
setInterval(() => {
  const body = JSON.stringify({ ...healthy, CurrentGameState: 'StandingBy' })
  fetch(url + sessionHostId, { method: 'PATCH', body }).then(
    (response) => response.text(),
    () => undefined,
  )
}, 500)
