/** The schema of what a build says about a game without an SDK, and what a schema cannot express. Pure. */
import { type GameSpec, networkProbePort, playersProbePort, queryProtocols } from '../game/probes.js'
import { partsOf } from '../game/sdk-config.js'
import { type BuildSpec, gameSdks } from '../model/resources.js'
import { gameContainerOf } from './pod-template.js'
import { invalid, type Refused } from './problem.js'
import type { ArraySchema, NumberSchema, ObjectSchema, StringSchema } from './schema.js'
import { port as portNumber } from './shared-schemas.js'

const port = {
  ...portNumber,
  description: 'One of portsToExpose. Default: the first of them.',
  examples: [7777],
} as const satisfies NumberSchema

const path = {
  type: 'string',
  minLength: 1,
  maxLength: 1_000,
  pattern: '^/[!-~]*$',
  expected: 'a path that begins with / and has no blanks',
  description: 'Path and query of the request.',
  examples: ['/healthz'],
} as const satisfies StringSchema

const bytes = {
  type: 'string',
  maxLength: 2_000,
  pattern: '^([0-9A-Fa-f]{2})+$',
  expected: 'bytes in hexadecimal, two digits each',
} as const satisfies StringSchema

const pattern = {
  type: 'string',
  minLength: 1,
  maxLength: 500,
  controls: 'none',
  expected: 'text of 1 to 500 characters',
} as const satisfies StringSchema

const query = {
  type: 'object',
  unknownFields: 'refuse',
  required: ['protocol'],
  expected: 'an object with protocol',
  description: "The game's own query protocol.",
  properties: {
    port,
    protocol: {
      type: 'string',
      enum: queryProtocols,
      description:
        'a2s: of Source games, Rust, ARK and many others. minecraft: Java edition. bedrock: Minecraft Bedrock edition. sqp: of Unity.',
    },
  },
} as const satisfies ObjectSchema

const command = {
  type: 'array',
  items: { type: 'string', maxLength: 4_000, controls: 'none' },
  minItems: 1,
  maxItems: 100,
  expected: 'a program and its arguments',
} as const satisfies ArraySchema

const commandProbe = {
  ...command,
  description:
    'Runs where the game does, without a shell. Passes if it exits with code 0. $(PORT_7777) is the port at which the game listens.',
  examples: [['redis-cli', '-p', '$(PORT_6379)', 'ping']],
} as const satisfies ArraySchema

const networkProbe = {
  tcp: {
    type: 'object',
    unknownFields: 'refuse',
    expected: 'an object, which may be empty',
    description: 'Passes if the game accepts a connection.',
    properties: { port },
  },
  udp: {
    type: 'object',
    unknownFields: 'refuse',
    required: ['send'],
    expected: 'an object with send',
    description: 'Passes if a datagram is answered.',
    properties: {
      port,
      send: { ...bytes, description: 'What to send, in hexadecimal.', examples: ['ffffffff54'] },
      expect: { ...bytes, description: 'What the answer begins with, in hexadecimal. Default: any answer.' },
    },
  },
  http: {
    type: 'object',
    unknownFields: 'refuse',
    required: ['path'],
    expected: 'an object with path',
    description: 'Passes if a GET is answered with a status from 200 to 299. Redirects are not followed.',
    properties: { port, path },
  },
  query: { ...query, description: 'Passes if the game answers its query protocol.' },
} as const

export const sdkSchema = {
  type: 'string',
  enum: gameSdks,
  description:
    "What the game speaks. gsdk: the PlayFab GSDK or the package's own SDK, which send heartbeats. none: nothing; the fleet asks it, as game says. Default: gsdk.",
} as const satisfies StringSchema

export const gameSchema = {
  type: 'object',
  unknownFields: 'refuse',
  required: ['readiness'],
  expected: 'an object with readiness',
  description:
    'What the fleet asks a game without an SDK. With sdk none, and only then. A change starts no rolling update.',
  properties: {
    readiness: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with one probe',
      description: 'A server is ready for a session once this passes.',
      alternatives: [['tcp'], ['udp'], ['http'], ['query'], ['log'], ['runningSeconds'], ['command']],
      properties: {
        ...networkProbe,
        command: commandProbe,
        log: {
          ...pattern,
          description: 'Text in a line of its log. * stands for any text.',
          examples: ['Done (*s)! For help'],
        },
        runningSeconds: {
          type: 'integer',
          minimum: 0,
          maximum: 3_600,
          description: 'So many seconds after its process started.',
        },
      },
    },
    liveness: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with one probe',
      description:
        'A ready server is Unhealthy while this fails. Default: the probe of players, and without one, no more than that its process runs.',
      alternatives: [['tcp'], ['udp'], ['http'], ['query'], ['command']],
      properties: { ...networkProbe, command: commandProbe },
    },
    players: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with query or http',
      description:
        'How to learn who plays. Players whom the game does not name are called unnamed-1, unnamed-2 and so on.',
      alternatives: [['query'], ['http']],
      properties: {
        query,
        http: {
          type: 'object',
          unknownFields: 'refuse',
          required: ['path', 'field'],
          expected: 'an object with path and field',
          description: 'A JSON document that the game serves.',
          properties: {
            port,
            path,
            field: {
              type: 'string',
              minLength: 1,
              maxLength: 200,
              controls: 'none',
              description:
                'Where in the document the number of players, or the list of their names, is: names and indexes, with dots between them.',
              examples: ['players.online'],
            },
          },
        },
      },
    },
    session: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with stdin, command or file',
      alternatives: [['stdin'], ['command'], ['file']],
      description:
        'How the game learns of its session. Default: it does not. If the host ends while it tells a game, the next one tells it again.',
      properties: {
        stdin: {
          ...pattern,
          description:
            'A line for its standard input, which the template must open with stdin: true. {sessionID}, {cookie} and {players} stand for those of the session.',
          examples: ['match {sessionID}'],
        },
        command: {
          ...command,
          description:
            'Runs where the game does, without a shell, until it exits with code 0. {sessionID}, {cookie} and {players} stand for those of the session, and $(PORT_7777) for the port at which the game listens.',
          examples: [['rcon-cli', 'say match {sessionID}']],
        },
        file: {
          ...pattern,
          description:
            'A file to write where the game runs: JSON with sessionID, sessionCookie and initialPlayers. A relative path begins at PF_SHARED_CONTENT_FOLDER, a folder of the server alone. $(PF_GAMESERVER_NAME) is the name of the server. Needs sh.',
          examples: ['session.json'],
        },
        startsGame: {
          type: 'boolean',
          description:
            'Whether the game itself starts with its session, as of a script that waits for it. Until then the server stands by as soon as its process runs, and nothing is asked; from then on, readiness says when the session is confirmed. Default: false.',
        },
      },
    },
    end: {
      type: 'object',
      unknownFields: 'refuse',
      minProperties: 1,
      expected: 'an object with log, emptySeconds or both',
      description:
        'When a session is over, besides with the end of the process. The server then ends, and is replaced.',
      properties: {
        log: {
          ...pattern,
          description:
            'Text in a line of the log, from the allocation on. * stands for any text. Players must not be able to write it, for example in a chat.',
          examples: ['Match over'],
        },
        emptySeconds: {
          type: 'integer',
          minimum: 1,
          maximum: 86_400,
          description:
            'No player for so many seconds, after there was one. Needs players. For a session to which nobody comes, see claimSeconds.',
          examples: [60],
        },
      },
    },
    periodSeconds: {
      type: 'integer',
      minimum: 1,
      maximum: 60,
      description: 'Seconds from one probe of a server to the next. Shorter while it starts. Default: 5.',
    },
    timeoutSeconds: {
      type: 'integer',
      minimum: 1,
      maximum: 30,
      description: 'Seconds within which a probe must pass. Default: 2.',
    },
    failureThreshold: {
      type: 'integer',
      minimum: 1,
      maximum: 100,
      description: 'How many probes in a row must fail until the server is Unhealthy. Default: 3.',
    },
  },
} as const satisfies ObjectSchema

/** What a schema cannot express. */
export function checkGame(
  spec: Pick<
    BuildSpec,
    'claimSeconds' | 'game' | 'portsToExpose' | 'sdk' | 'seatsPerSession' | 'sessionsPerServer' | 'template'
  >,
): Refused | undefined {
  const { game, sdk, sessionsPerServer = 1 } = spec
  if (sdk !== 'none') {
    return (
      game && invalid('spec.game', 'is only for a game without an SDK; set spec.sdk to "none", or leave out spec.game')
    )
  }
  if (!game)
    return invalid('spec.game', 'must say how to tell that a game without an SDK is ready, in spec.game.readiness')
  if (sessionsPerServer > 1) {
    return invalid('spec.sessionsPerServer', 'must be 1 for a game without an SDK, but is ' + String(sessionsPerServer))
  }
  for (const field of ['claimSeconds', 'seatsPerSession'] as const) {
    if (spec[field] === undefined || game.players) continue
    return invalid(`spec.${field}`, 'needs spec.game.players, which says who plays')
  }
  return checkPorts(game, spec.portsToExpose) ?? checkNeeds(game, spec)
}

function checkPorts(game: GameSpec, exposed: readonly number[]): Refused | undefined {
  const { readiness, liveness, players } = game
  const isNetwork = [readiness.log, readiness.runningSeconds, readiness.command].every((one) => one === undefined)
  const probes = [
    ['readiness', isNetwork, networkProbePort(readiness)],
    ['liveness', liveness !== undefined && !liveness.command, liveness && networkProbePort(liveness)],
    ['players', players !== undefined, players && playersProbePort(players)],
  ] as const
  for (const [name, isAsked, wanted] of probes) {
    if (!isAsked || (wanted === undefined ? exposed.length > 0 : exposed.includes(wanted))) continue
    const list = exposed.length === 0 ? 'which is empty' : `which is [${exposed.join(', ')}]`
    return invalid(
      `spec.game.${name}`,
      `must ask at ${wanted === undefined ? 'a port' : `port ${wanted}, which must be`} in spec.portsToExpose, ${list}`,
    )
  }
  for (const [field, parts] of Object.entries(commandsOf(game))) {
    if (parts[0] === '') return invalid(field, 'must begin with a program')
    const script =
      /(?:^|\/)(?:a|ba|da|k|z)?sh$/.test(parts[0] ?? '') && /^-\w*c\w*$/.test(parts[1] ?? '') ? parts[2] : undefined
    const inScript = /\{(?:sessionID|cookie|players)\}/.exec(script ?? '')?.[0]
    if (inScript !== undefined) {
      return invalid(
        `${field}[2]`,
        `must not contain ${inScript}, which the shell would run as a part of its script; use "$1" there, and add "sh" and "${inScript}" as arguments`,
      )
    }
    const named = parts.flatMap((part) => partsOf(part).map(({ name = '' }) => name))
    const unknown = named.find((name) => /^PORT_\d+$/.test(name) && !exposed.some((one) => name === `PORT_${one}`))
    if (unknown !== undefined) return invalid(field, `names $(${unknown}), which is no port in spec.portsToExpose`)
  }
  return undefined
}

/** What is run where the game runs, by field. */
function commandsOf({ readiness, liveness, session }: GameSpec): Readonly<Record<string, readonly string[]>> {
  return {
    ...(readiness.command && { 'spec.game.readiness.command': readiness.command }),
    ...(liveness?.command && { 'spec.game.liveness.command': liveness.command }),
    ...(session?.command && { 'spec.game.session.command': session.command }),
    ...(session?.file !== undefined && { 'spec.game.session.file': [session.file] }),
  }
}

/** For a backend that runs no commands. */
export function refuseCommands(game: GameSpec): Refused | undefined {
  const [field] = Object.keys(commandsOf(game))
  if (field === undefined) return undefined
  return invalid(field, 'needs a backend that runs commands where its games run, which this one does not')
}

function checkNeeds(
  { end, players, readiness, session }: GameSpec,
  { template }: Pick<BuildSpec, 'template'>,
): Refused | undefined {
  if (end?.emptySeconds !== undefined && !players) {
    return invalid('spec.game.end.emptySeconds', 'needs spec.game.players, which says who plays')
  }
  if (session?.startsGame && readiness.runningSeconds !== undefined) {
    return invalid(
      'spec.game.readiness.runningSeconds',
      'counts from the start of the process; with spec.game.session.startsGame, choose a probe that passes once the game has started',
    )
  }
  if (session?.stdin !== undefined && !gameContainerOf(template).stdin) {
    return invalid(
      'spec.game.session.stdin',
      'needs a standard input; set stdin: true in the container of the template or in run',
    )
  }
  return undefined
}
