// @ts-check
/**
 * A small game server that reads lines over TCP and datagrams over UDP, on one port number.
 *
 *   hello <player>   connects a player. Every TCP connection is a player, named `guest-1` until it sends hello
 *   bye <player>     disconnects a player. A UDP player is disconnected after 10 s without hello
 *   quit, crash      exits with code 0 or 1
 *
 * The server answers every line, even an empty one, with `session <id> cookie <cookie> players <a,b>`, where the players are
 * the initial and the connected ones. Before the server is allocated, the answer is `standing by`. It is sent after a short
 * wait, since a player may connect before the heartbeat answer that contains the session.
 *
 * To see how a fleet reacts, these environment variables make it misbehave:
 *
 *   NEVER_READY=1              never becomes ready for players
 *   READY_AFTER_MS=500         becomes ready this long after it starts to listen
 *   STOP_HEARTBEAT_AFTER_MS    stops sending heartbeats this long after its start, but keeps running
 *   UNHEALTHY_AFTER_MS         starts to report Unhealthy this long after its start
 *   END_AFTER_SECONDS          exits with code 0 this long after it is allocated
 */
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { start } from 'gamekeeper/sdk'

const udpTimeoutMs = 10_000
/** Heartbeats are sent once a second, so the session arrives within this time of the allocation. */
const sessionDelayMs = 1_500

/**
 * @typedef {object} Player
 * @property {string} name
 * @property {(text: string) => void} send
 * @property {NodeJS.Timeout} [timeout] disconnects a UDP player
 */

/** Connected players: by connection for TCP, by name for UDP. @type {Map<string, Player>} */
const players = new Map()

let healthy = true
const gsdk = await start({ health: () => healthy, onTerminate: goodbye }).catch((error) => {
  console.error(error.message)
  process.exit(1)
})

const tcp = createServer({ allowHalfOpen: true }, onConnection)
const udp = createSocket('udp4', onDatagram)
let guests = 0

/** Handles a TCP connection, which counts as a player until it closes. @param {import('node:net').Socket} socket */
function onConnection(socket) {
  const id = `guest-${++guests}`
  const send = (/** @type {string} */ text) => void socket.write(`${text}\n`)
  join(id, { name: id, send })
  socket.on('error', () => {}) // 'close' is emitted next
  socket.on('close', () => leave(id))

  let replies = Promise.resolve()
  const reply = () => void (replies = replies.then(answer).then(send))
  // A client that closes its side without sending a line also gets an answer.
  const greeting = setTimeout(reply, 250)
  const lines = createInterface({ input: socket })
  lines.on('error', () => {}) // the socket's errors, once more
  lines.on('line', (line) => {
    clearTimeout(greeting)
    const [verb, name] = read(line)
    if (verb === 'hello' && name) join(id, { name, send })
    if (verb === 'bye') leave(id)
    reply()
  })
  lines.on('close', () => {
    if (socket.bytesRead === 0) reply()
    clearTimeout(greeting)
    void replies.then(() => socket.end())
  })
}

/** @param {Buffer} datagram @param {import('node:dgram').RemoteInfo} from */
function onDatagram(datagram, from) {
  const send = (/** @type {string} */ text) => udp.send(`${text}\n`, from.port, from.address, () => {}) // may fit no datagram
  const [verb, name] = read(datagram.toString())
  const id = `udp ${name}`
  if (verb === 'hello' && name) join(id, { name, send, timeout: setTimeout(() => leave(id), udpTimeoutMs) })
  if (verb === 'bye') leave(id)
  void answer().then(send)
}

/** @param {string} line */
function read(line) {
  const words = line.trim().split(/\s+/)
  if (words[0] === 'quit') process.exit(0)
  if (words[0] === 'crash') process.exit(1)
  return words
}

/** Resolves `allocated`. @type {(value: unknown) => void} */
let setAllocated = () => {}
const allocated = new Promise((resolve) => (setAllocated = resolve))

async function answer() {
  if (gsdk.session === undefined)
    await Promise.race([allocated, new Promise((resolve) => after(sessionDelayMs, () => resolve(undefined)))])
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
  clearTimeout(players.get(id)?.timeout)
  players.set(id, player)
  gsdk.updateConnectedPlayers(connected())
}

/** @param {string} id */
function leave(id) {
  clearTimeout(players.get(id)?.timeout)
  players.delete(id)
  gsdk.updateConnectedPlayers(connected())
}

/** Called when the fleet terminates this server. */
function goodbye() {
  gsdk.logs.write('goodbye')
  for (const player of players.values()) player.send('goodbye')
  setTimeout(() => process.exit(0), 50) // leaves time to send the messages
}

/** An environment variable as milliseconds, if it is set. @param {string} name */
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
  setAllocated(sessionId)
  gsdk.logs.write(`session ${sessionId} begins, expecting ${initialPlayers.join(', ') || 'any players'}`)
  after(switchMs('END_AFTER_SECONDS', 1000), () => process.exit(0))
}
