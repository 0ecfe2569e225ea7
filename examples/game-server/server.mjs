// @ts-check
/**
 * A small game server: it hears lines over TCP and datagrams over UDP, on one port number.
 *
 *   hello <player>   that player is here now; so is every TCP connection, as `guest-1` until it says hello
 *   bye <player>     that player has left; so has a UDP player who says no hello for 10 s
 *   quit, crash      ends this process, with code 0 or 1
 *
 * Whatever it hears, an empty line too, it answers with `session <id> cookie <cookie> players <a,b>`: the players that
 * are expected and those that came. While it is not allocated it answers `standing by`, after a moment: a player may be
 * quicker than the heartbeat that tells of the session.
 *
 * For trying out how a fleet behaves, these environment variables make it a bad or a brief server:
 *
 *   NEVER_READY=1              never says that it is ready for players
 *   READY_AFTER_MS=500         takes that long to be ready
 *   STOP_HEARTBEAT_AFTER_MS    falls silent that long after its start, and runs on
 *   UNHEALTHY_AFTER_MS         reports Unhealthy from that long after its start on
 *   END_AFTER_SECONDS          ends with code 0 that long after it was allocated
 */
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { start } from 'gamekeeper/sdk'

const udpSilenceMs = 10_000
/** Heartbeats go once a second, so a session is known this soon after the allocation. */
const knownWithinMs = 1_500

/**
 * @typedef {object} Player
 * @property {string} name
 * @property {(text: string) => void} tell
 * @property {NodeJS.Timeout} [silence] ends with its leaving
 */

/** Who is connected: over TCP by connection, over UDP by name. @type {Map<string, Player>} */
const players = new Map()

let healthy = true
const gsdk = await start({ health: () => healthy, onTerminate: goodbye }).catch((error) => {
  console.error(error.message)
  process.exit(1)
})

const tcp = createServer({ allowHalfOpen: true }, welcome)
const udp = createSocket('udp4', hear)
let guests = 0

/** One TCP connection: a player, who leaves by closing it. @param {import('node:net').Socket} socket */
function welcome(socket) {
  const id = `guest-${++guests}`
  const tell = (/** @type {string} */ text) => void socket.write(`${text}\n`)
  join(id, { name: id, tell })
  socket.on('error', () => {}) // a player whose connection breaks has left, which 'close' tells
  socket.on('close', () => leave(id))

  let said = Promise.resolve()
  const reply = () => void (said = said.then(answer).then(tell))
  // Who only connects is answered as well.
  const quiet = setTimeout(reply, 250)
  const lines = createInterface({ input: socket })
  lines.on('line', (line) => {
    clearTimeout(quiet)
    const [verb, name] = read(line)
    if (verb === 'hello' && name) join(id, { name, tell })
    if (verb === 'bye') leave(id)
    reply()
  })
  lines.on('close', () => {
    if (socket.bytesRead === 0) reply()
    clearTimeout(quiet)
    void said.then(() => socket.end())
  })
}

/** One datagram. @param {Buffer} datagram @param {import('node:dgram').RemoteInfo} from */
function hear(datagram, from) {
  const tell = (/** @type {string} */ text) => udp.send(`${text}\n`, from.port, from.address)
  const [verb, name] = read(datagram.toString())
  const id = `udp ${name}`
  if (verb === 'hello' && name) join(id, { name, tell, silence: setTimeout(() => leave(id), udpSilenceMs) })
  if (verb === 'bye') leave(id)
  void answer().then(tell)
}

/** @param {string} line */
function read(line) {
  const words = line.trim().split(/\s+/)
  if (words[0] === 'quit') process.exit(0)
  if (words[0] === 'crash') process.exit(1)
  return words
}

/** Tells that the session is known. @type {(value: unknown) => void} */
let begin = () => {}
const begun = new Promise((resolve) => (begin = resolve))

async function answer() {
  if (gsdk.session === undefined)
    await Promise.race([begun, new Promise((resolve) => after(knownWithinMs, () => resolve(undefined)))])
  if (gsdk.session === undefined) return 'standing by'
  const { sessionId, sessionCookie = '', initialPlayers } = gsdk.session
  const names = new Set([...initialPlayers, ...connected()])
  return `session ${sessionId} cookie ${sessionCookie} players ${[...names].join(',')}`
}

function connected() {
  return [...new Set([...players.values()].map((player) => player.name))]
}

/** @param {string} id @param {Player} player */
function join(id, player) {
  clearTimeout(players.get(id)?.silence)
  players.set(id, player)
  gsdk.updateConnectedPlayers(connected())
}

/** @param {string} id */
function leave(id) {
  clearTimeout(players.get(id)?.silence)
  players.delete(id)
  gsdk.updateConnectedPlayers(connected())
}

/** The fleet asks this server to end. */
function goodbye() {
  gsdk.logs.write('goodbye')
  for (const player of players.values()) player.tell('goodbye')
  setTimeout(() => process.exit(0), 50) // what was said above is on its way by then
}

/** The number of milliseconds that an environment variable names, if it names one. @param {string} name */
const switchMs = (name, unitMs = 1) => (process.env[name] ? Number(process.env[name]) * unitMs : undefined)

/** @param {number | undefined} ms @param {() => void} fn */
const after = (ms, fn) => void (ms !== undefined && setTimeout(fn, ms))

after(switchMs('STOP_HEARTBEAT_AFTER_MS'), gsdk.stop)
after(switchMs('UNHEALTHY_AFTER_MS'), () => (healthy = false))

const port = gsdk.config.ports['game']?.listening ?? Number(process.env['PORT_7777'] ?? 7777)
await Promise.all([
  new Promise((resolve) => tcp.listen(port, () => resolve(undefined))),
  new Promise((resolve) => udp.bind(port, () => resolve(undefined))),
])
gsdk.logs.write(`listening on ${port}`)

await new Promise((resolve) => setTimeout(resolve, switchMs('READY_AFTER_MS') ?? 0))
if (process.env['NEVER_READY'] !== '1') {
  const { sessionId, initialPlayers } = await gsdk.readyForPlayers()
  begin(sessionId)
  gsdk.logs.write(`session ${sessionId} begins, expecting ${initialPlayers.join(', ') || 'nobody in particular'}`)
  after(switchMs('END_AFTER_SECONDS', 1000), () => process.exit(0))
}
