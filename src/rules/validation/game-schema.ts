/** The schema of what a build says about a game without an SDK, and what a schema cannot express. Pure. */
import { type GameSpec, networkProbePort, playersProbePort, queryProtocols } from '../game/probes.js'
import { type BuildSpec, gameSdks } from '../model/resources.js'
import { gameContainerOf } from './pod-template.js'
import { invalid, type Refused } from './problem.js'
import type { NumberSchema, ObjectSchema, StringSchema } from './schema.js'
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
      alternatives: [['tcp'], ['udp'], ['http'], ['query'], ['log'], ['runningSeconds']],
      properties: {
        ...networkProbe,
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
      alternatives: [['tcp'], ['udp'], ['http'], ['query']],
      properties: networkProbe,
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
      required: ['stdin'],
      expected: 'an object with stdin',
      description:
        'How the game learns of its session. Default: it does not. If the host ends while it tells a game, the next one tells it again.',
      properties: {
        stdin: {
          ...pattern,
          description:
            'A line for its standard input, which the template must open with stdin: true. {sessionID}, {cookie} and {players} stand for those of the session.',
          examples: ['match {sessionID}'],
        },
        startsGame: {
          type: 'boolean',
          description:
            'Whether the game itself starts with its session, as of a script that waits for the line. Until then the server stands by as soon as its process runs, and nothing is asked; from then on, readiness says when the session is confirmed. Default: false.',
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
  const isNetwork = readiness.log === undefined && readiness.runningSeconds === undefined
  const probes = [
    ['readiness', isNetwork, networkProbePort(readiness)],
    ['liveness', liveness !== undefined, liveness && networkProbePort(liveness)],
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
  return undefined
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
  if (session && !gameContainerOf(template).stdin) {
    return invalid(
      'spec.game.session.stdin',
      'needs a standard input; set stdin: true in the container of the template or in run',
    )
  }
  return undefined
}
