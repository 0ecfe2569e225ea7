/**
 * A game server without an SDK, which answers the queries of its protocol. Runs as a program of its own, from this file or as text passed to
 * `node -e`, so it must not contain a dollar sign followed by a parenthesis; tests also import it.
 *
 *     node query-game.mjs --protocol a2s|minecraft|bedrock|sqp|http --port 27015 [--host 127.0.0.1] [--ready-after 500] [--match ID] [--warm-up]
 *       [--session-file session.json]
 *
 * Prints `match ID` if it is started for one, and `ready a2s 27015` once it answers; port 0 lets the system choose. Prints `session <session> began`
 * once that file is there. Each line on stdin is a command:
 *
 * - `players amie ben`: who plays; without names, nobody
 * - `bots 3`: how many bots play as well, for A2S
 * - `start <session>` and `end <session>`: prints `session <session> began` or `ended`
 * - `silent` and `speak`: stops answering, and answers again
 * - `status 503`: the status of HTTP answers
 * - `exit 1`: exits with this code
 *
 * With `--warm-up` it answers nothing. Exits with code 0 on SIGTERM. Over HTTP, GET /players answers `{"players":{"online":2,"names":["amie","ben"]}}`, and any other path "ok".
 */
import { createSocket } from 'node:dgram'
import { existsSync, readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

/** @typedef {'a2s' | 'minecraft' | 'bedrock' | 'sqp' | 'http'} Protocol */

/**
 * What the game says. Tests change it at any time.
 * @typedef {object} Game
 * @property {string[]} players
 * @property {number} bots
 * @property {boolean} isSilent
 * @property {number} status
 * @property {string} tags of A2S
 * @property {number} gameId of A2S: that of Rust is 252490
 * @property {boolean} listsPlayers False: does not answer the query for players of A2S, as some games do not.
 */

/** @returns {Game} */
export function aGame() {
  return {
    players: [],
    bots: 0,
    isSilent: false,
    status: 200,
    tags: '',
    gameId: 440,
    listsPlayers: true,
  }
}

/**
 * Opens a server that answers for the game.
 * @param {Protocol} protocol
 * @param {Game} game
 * @param {{port?: number, host?: string}} [at]
 * @returns {Promise<{port: number, close: () => Promise<void>}>}
 */
export function openGame(protocol, game, { port = 0, host = '127.0.0.1' } = {}) {
  switch (protocol) {
    case 'a2s':
      return overUdp(game, port, host, answerA2S)
    case 'bedrock':
      return overUdp(game, port, host, answerBedrock)
    case 'sqp':
      return overUdp(game, port, host, answerSqp)
    case 'minecraft':
      return overTcp(minecraftServer(game), port, host)
    case 'http':
      return overTcp(webServer(game), port, host)
  }
}

/**
 * @param {Game} game
 * @param {number} port
 * @param {string} host
 * @param {(game: Game, request: Buffer) => Buffer[]} answer
 * @returns {Promise<{port: number, close: () => Promise<void>}>}
 */
async function overUdp(game, port, host, answer) {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  socket.on('message', (request, sender) => {
    if (game.isSilent) return
    for (const packet of answer(game, request)) socket.send(packet, sender.port, sender.address)
  })
  await new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.bind(port, host, () => resolve(undefined))
  })
  return { port: socket.address().port, close: () => new Promise((resolve) => socket.close(() => resolve())) }
}

/**
 * @param {import('node:net').Server} server
 * @param {number} port
 * @param {string} host
 * @returns {Promise<{port: number, close: () => Promise<void>}>}
 */
async function overTcp(server, port, host) {
  /** @type {Set<import('node:net').Socket>} */
  const open = new Set()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => {})
  })
  await new Promise((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, host, () => resolve(undefined))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the game has no port')
  return {
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of open) socket.destroy()
      }),
  }
}

// A2S: developer.valvesoftware.com/wiki/Server_queries

const whole = Buffer.from('ffffffff', 'hex')
const challenge = Buffer.from('0badcafe', 'hex')
const partBytes = 1_248

/**
 * @param {Game} game
 * @param {Buffer} request
 * @returns {Buffer[]}
 */
function answerA2S(game, request) {
  const type = String.fromCharCode(request[4] ?? 0)
  const given = request.subarray(type === 'T' ? 25 : 5)
  if (type !== 'T' && type !== 'U') return []
  if (!given.equals(challenge)) return [Buffer.concat([whole, Buffer.from('A'), challenge])]
  if (type === 'T') return [infoOf(game)]
  return game.listsPlayers ? inParts(playersOf(game)) : []
}

/** @param {Game} game */
function infoOf({ players, bots, tags, gameId }) {
  return Buffer.concat([
    whole,
    Buffer.from('I'),
    Buffer.of(17),
    Buffer.from('Arena\0dust\0arena\0The Arena\0'),
    u16le(gameId & 0xffff),
    Buffer.of(Math.min(255, players.length + bots), 255, bots),
    Buffer.from('dl\0\x01'),
    Buffer.from('1.0.0\0'),
    Buffer.of(0x80 | 0x10 | 0x20 | 0x01),
    u16le(27_015),
    u64le(90_071_992_547_409_920n),
    Buffer.from(tags + '\0'),
    u64le(BigInt(gameId)),
  ])
}

/** @param {Game} game */
function playersOf({ players, bots }) {
  const names = [...players, ...Array.from({ length: bots }, (_, i) => 'Bot ' + i)].slice(0, 255)
  return Buffer.concat([
    whole,
    Buffer.from('D'),
    Buffer.of(names.length),
    ...names.flatMap((name, i) => [Buffer.of(i), Buffer.from(name + '\0'), Buffer.alloc(4), f32le(60 + i)]),
  ])
}

/** @param {Buffer} packet */
function inParts(packet) {
  if (packet.length <= partBytes + 152) return [packet]
  const total = Math.ceil(packet.length / partBytes)
  return Array.from({ length: total }, (_, number) =>
    Buffer.concat([
      Buffer.from('feffffff', 'hex'),
      Buffer.from('07000000', 'hex'),
      Buffer.of(total, number),
      u16le(partBytes),
      packet.subarray(number * partBytes, (number + 1) * partBytes),
    ]),
  )
}

// Minecraft Java: minecraft.wiki, Java_Edition_protocol/Server_List_Ping

/** @param {Game} game */
function minecraftServer(game) {
  return createServer((socket) => {
    let received = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      for (let length = received[0]; length !== undefined && received.length > length; length = received[0]) {
        const packet = received.subarray(1, length + 1)
        received = received.subarray(length + 1)
        if (!game.isSilent) answerMinecraft(game, packet, socket)
      }
    })
  })
}

/**
 * @param {Game} game
 * @param {Buffer} packet
 * @param {import('node:net').Socket} socket
 */
function answerMinecraft({ players }, packet, socket) {
  if (packet[0] === 1) return void socket.write(framed(packet))
  // The handshake, which is not answered.
  if (packet.length > 1) return
  const sample = players.slice(0, 12).map((name, i) => ({ name, id: `00000000-0000-4000-8000-${u48(i)}` }))
  const status = {
    version: { name: '1.21.4', protocol: 769 },
    players: { max: 100, online: players.length, sample },
    description: { text: 'The Arena' },
  }
  const text = Buffer.from(JSON.stringify(status))
  socket.write(framed(Buffer.concat([Buffer.of(0), varInt(text.length), text])))
}

/** @param {Buffer} packet */
function framed(packet) {
  return Buffer.concat([varInt(packet.length), packet])
}

/** @param {number} value */
function varInt(value) {
  const bytes = []
  let left = value
  while (left > 127) {
    bytes.push((left & 127) | 128)
    left >>= 7
  }
  return Buffer.from([...bytes, left])
}

// Bedrock: minecraft.wiki, Bedrock_Edition_protocol/RakNet

const magic = Buffer.from('00ffff00fefefefefdfdfdfd12345678', 'hex')

/**
 * @param {Game} game
 * @param {Buffer} request
 */
function answerBedrock({ players }, request) {
  if (request[0] !== 1 || request.length !== 33 || !request.subarray(9, 25).equals(magic)) return []
  const text = Buffer.from(
    `MCPE;The Arena;766;1.21.50;${players.length};100;81985529216486895;world;Survival;1;19132;19133;`,
  )
  const id = Buffer.from('0123456789abcdef', 'hex')
  return [Buffer.concat([Buffer.of(0x1c), request.subarray(1, 9), id, magic, u16be(text.length), text])]
}

// SQP: github.com/multiplay/go-svrquery

/**
 * @param {Game} game
 * @param {Buffer} request
 */
function answerSqp({ players }, request) {
  if (request[0] === 0 && request.length === 5) return [Buffer.concat([Buffer.of(0), challenge])]
  if (request[0] !== 1 || request.length !== 8 || !request.subarray(1, 5).equals(challenge)) return []
  const info = Buffer.concat([
    ...[u16be(players.length), u16be(100)],
    ...['The Arena', 'arena', '1.0.0', 'dust'].flatMap((text) => [Buffer.of(text.length), Buffer.from(text)]),
    u16be(27_015),
  ])
  const chunk = Buffer.concat([u32be(info.length), info])
  return [Buffer.concat([Buffer.of(1), challenge, u16be(1), Buffer.of(0, 0), u16be(chunk.length), chunk])]
}

/** @param {Game} game */
function webServer(game) {
  return createHttpServer((request, response) => {
    if (game.isSilent) return
    response.statusCode = game.status
    const players = { online: game.players.length, names: game.players }
    response.end(request.url === '/players' ? JSON.stringify({ players }) : 'ok')
  })
}

/** @param {number} value */
function u16le(value) {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}

/** @param {number} value */
function u16be(value) {
  return u16le(value).reverse()
}

/** @param {number} value */
function u32be(value) {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** @param {bigint} value */
function u64le(value) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

/** @param {number} value */
function f32le(value) {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}

/** @param {number} value */
function u48(value) {
  return value.toString(16).padStart(12, '0')
}

// As a program

async function run() {
  const { values } = parseArgs({
    options: {
      protocol: { type: 'string', default: 'a2s' },
      port: { type: 'string', default: '0' },
      host: { type: 'string', default: '127.0.0.1' },
      'ready-after': { type: 'string', default: '0' },
      match: { type: 'string' },
      'warm-up': { type: 'boolean' },
      'session-file': { type: 'string' },
    },
  })
  const { protocol } = values
  if (!isProtocol(protocol))
    throw new Error(`--protocol must be a2s, minecraft, bedrock, sqp or http, but is ${protocol}`)
  const game = aGame()
  if (values.match !== undefined) console.log(`match ${values.match}`)
  process.on('SIGTERM', () => process.exit(0))
  createInterface({ input: process.stdin }).on('line', (line) => obey(game, line))
  if (values['warm-up']) return void setInterval(() => {}, 1_000)
  if (values['session-file'] !== undefined) watchSession(values['session-file'])
  await new Promise((resolve) => setTimeout(resolve, Number(values['ready-after'])))
  const { port } = await openGame(protocol, game, { port: Number(values.port), host: values.host })
  console.log(`ready ${protocol} ${port}`)
}

/**
 * The file must be whole as soon as it is there.
 * @param {string} path
 */
function watchSession(path) {
  const timer = setInterval(() => {
    if (!existsSync(path)) return
    clearInterval(timer)
    console.log(`session ${JSON.parse(readFileSync(path, 'utf8')).sessionID} began`)
  }, 50)
}

/**
 * @param {string | undefined} text
 * @returns {text is Protocol}
 */
function isProtocol(text) {
  return text !== undefined && ['a2s', 'minecraft', 'bedrock', 'sqp', 'http'].includes(text)
}

/**
 * @param {Game} game
 * @param {string} line
 */
function obey(game, line) {
  const [command = '', ...words] = line.trim().split(/\s+/)
  const [word = ''] = words
  switch (command) {
    case 'players':
      game.players = words
      break
    case 'bots':
      game.bots = Number(word)
      break
    case 'start':
      return console.log(`session ${word} began`)
    case 'end':
      return console.log(`session ${word} ended`)
    case 'silent':
      game.isSilent = true
      break
    case 'speak':
      game.isSilent = false
      break
    case 'status':
      game.status = Number(word)
      break
    case 'exit':
      return process.exit(Number(word))
    default:
      return console.log(`unknown command: ${line}`)
  }
  console.log(`done: ${line}`)
}

// As text, it has no file.
if (process.argv[1] === undefined || process.argv[1].endsWith('query-game.mjs') || import.meta.url.endsWith('[eval1]'))
  await run()
