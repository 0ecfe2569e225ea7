/**
 * The custom resource definitions. Fields that users and clients see come from the schemas in `rules/validation`. This file
 * adds what is specific to Kubernetes: names, printer columns, subresources, defaults, and the fields in which hosts store
 * records.
 */
import { defaultApiGroup } from '../../src/rules/model/wire.js'
import { buildInput, condition, gameServerBuildSchema } from '../../src/rules/validation/build-schema.js'
import { time } from '../../src/rules/validation/shared-schemas.js'
import { gameServerDetailSchema, gameServerSchema } from '../../src/rules/validation/server-schema.js'
import { serverDataSchema } from '../../src/rules/lifecycle/server-data.js'
import { allocations } from './allocations.js'
import { sessionFields, sessionList } from './session-fields.js'
import { eachOf, structural, type StructuralSchema, unbounded } from './structural-schema.js'

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'date'
  readonly jsonPath: string
  /** With 1, the column is shown only by `kubectl get -o wide`. */
  readonly priority?: 1
}

export interface Resource {
  readonly kind: string
  /** The last one is for clusters in which another operator uses the others. */
  readonly shortNames: readonly string[]
  readonly subresources?: object
  readonly columns: readonly Column[]
  readonly schema: StructuralSchema
}

const text = { type: 'string' } as const
/** Allows null, because some API servers store an empty string as null. */
const textOrEmpty = { type: 'string', nullable: true } as const
const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
const writtenUpon = {
  ...text,
  description: "The object's resourceVersion before this write, as known to the host.",
}

const noServers = {
  ...{ currentActive: 0, currentStandingBy: 0, currentPending: 0, currentInitializing: 0 },
  crashesCount: 0,
}

const ready = '.status.conditions[?(@.type=="Ready")]'

const builds: Resource = {
  kind: 'GameServerBuild',
  shortNames: ['gsb', 'gkb'],
  subresources: {
    status: {},
    scale: { specReplicasPath: '.spec.standingBy', statusReplicasPath: '.status.currentStandingBy' },
  },
  columns: [
    { name: 'StandBy', type: 'string', jsonPath: '.status.currentStandingByReadyDesired' },
    { name: 'Active', type: 'integer', jsonPath: '.status.currentActive' },
    { name: 'Crashes', type: 'integer', jsonPath: '.status.crashesCount' },
    { name: 'Health', type: 'string', jsonPath: '.status.health' },
    { name: 'Ready', type: 'string', jsonPath: `${ready}.status` },
    age,
    { name: 'Reason', type: 'string', jsonPath: `${ready}.reason`, priority: 1 },
    { name: 'Outdated', type: 'integer', jsonPath: '.status.rollout.outdated', priority: 1 },
    { name: 'Max', type: 'integer', jsonPath: '.spec.max', priority: 1 },
    { name: 'Pending', type: 'integer', jsonPath: '.status.currentPending', priority: 1 },
    { name: 'Initializing', type: 'integer', jsonPath: '.status.currentInitializing', priority: 1 },
    { name: 'BuildID', type: 'string', jsonPath: '.spec.buildID', priority: 1 },
  ],
  schema: {
    description: gameServerBuildSchema.description,
    type: 'object',
    required: ['metadata', 'spec'],
    properties: {
      metadata: nameOnly(structural(buildInput.properties.metadata.properties.name)),
      spec: structural(gameServerBuildSchema.properties.spec),
      status: buildStatus(),
    },
  },
}

/** In `metadata`, Kubernetes allows constraints on the name only. */
function nameOnly({ description: _description, ...name }: StructuralSchema): StructuralSchema {
  return { type: 'object', properties: { name } }
}

function buildStatus(): StructuralSchema {
  const { status } = gameServerBuildSchema.properties
  const counts = Object.keys(noServers)
  const properties = Object.entries(eachOf(status.properties, unbounded)).map(([name, schema]) => [
    name,
    counts.includes(name) ? { ...schema, default: 0 } : schema,
  ])
  return {
    description: status.description,
    type: 'object',
    default: noServers,
    properties: {
      ...Object.fromEntries(properties),
      conditions: {
        description: status.properties.conditions.description,
        type: 'array',
        items: {
          type: 'object',
          required: ['type', 'status'],
          properties: {
            ...eachOf(condition.properties, unbounded),
            status: {
              ...text,
              description: 'Whether the condition applies. Only Ready is ever False: any other is removed instead.',
              enum: ['True', 'False', 'Unknown'],
            },
            observedGeneration: {
              type: 'integer',
              description: 'Of Ready: the generation of the spec that it is about.',
            },
          },
        },
      },
      uid: { ...text, description: 'Identifies the build to its servers. Default: metadata.uid.' },
      home: {
        ...text,
        description: 'The systemNamespace of the fleet that the build belongs to. Hosts of other fleets keep off.',
      },
      createdAt: {
        ...unbounded(time),
        description: 'When the build was created. Default: metadata.creationTimestamp.',
      },
      countedCrashes: {
        type: 'array',
        items: textOrEmpty,
        description: 'Servers whose crash is included in crashesCount, so that each is counted once.',
      },
      recentCrashes: {
        type: 'array',
        description: 'The latest crashes, newest first.',
        items: {
          type: 'object',
          properties: {
            time: { ...unbounded(time), description: 'When it crashed.' },
            server: { ...text, description: 'The server that crashed.' },
            reason: { ...text, description: 'One machine-readable word.' },
            message: { ...text, description: 'A human-readable sentence.' },
            output: { ...text, description: 'The last lines that it has printed.' },
          },
        },
      },
      writtenUpon,
    },
  }
}

const servers: Resource = {
  kind: 'GameServer',
  shortNames: ['gs', 'gks'],
  subresources: { status: {} },
  columns: [
    { name: 'Health', type: 'string', jsonPath: '.status.health' },
    { name: 'State', type: 'string', jsonPath: '.status.state' },
    { name: 'PublicIP', type: 'string', jsonPath: '.status.publicIP' },
    { name: 'Ports', type: 'string', jsonPath: '.status.ports' },
    { name: 'SessionID', type: 'string', jsonPath: '.status.sessionID' },
    { name: 'Sessions', type: 'string', jsonPath: '.status.sessions', priority: 1 },
    age,
    { name: 'Node', type: 'string', jsonPath: '.status.nodeName', priority: 1 },
    { name: 'Build', type: 'string', jsonPath: '.spec.build', priority: 1 },
    { name: 'Labels', type: 'string', jsonPath: '.status.labels', priority: 1 },
    { name: 'Counters', type: 'string', jsonPath: '.status.counters', priority: 1 },
    { name: 'ReservedUntil', type: 'string', jsonPath: '.status.reservedUntil', priority: 1 },
  ],
  schema: {
    description: 'One game server. Created by the host that leads the fleet; deleting it terminates the server.',
    type: 'object',
    required: ['spec'],
    properties: { spec: serverSpec(), status: serverStatus() },
  },
}

function serverSpec(): StructuralSchema {
  return {
    description: 'What the server was created as. Never changes.',
    type: 'object',
    required: ['uid', 'token', 'build', 'buildUid', 'templateHash', 'createdAt'],
    properties: {
      uid: { ...text, description: 'Distinguishes the server from a later one of the same name.' },
      token: { ...text, description: 'Secret that authenticates the heartbeats of the server. Encrypted.' },
      build: { ...text, description: 'Name of its build.' },
      buildUid: { ...text, description: 'uid of its build.' },
      templateHash: { ...text, description: 'Hash of the template that the server was created with.' },
      graceSeconds: {
        type: 'integer',
        minimum: 0,
        description: 'terminationGracePeriodSeconds of that template.',
      },
      createdAt: { ...unbounded(time), description: 'When the server was created.' },
    },
  }
}

function serverStatus(): StructuralSchema {
  const { description, properties } = gameServerSchema.properties.status
  const { state, health, ...shown } = properties
  return {
    description,
    type: 'object',
    default: { state: 'Pending', health: 'Unknown' },
    properties: {
      state: { ...unbounded(state), default: 'Pending' },
      health: { ...unbounded(health), default: 'Unknown' },
      ...eachOf(shown, unbounded),
      labels: unbounded(serverDataSchema.labels),
      annotations: unbounded(serverDataSchema.annotations),
      templateHash: {
        ...text,
        description: 'Hash of the template that the server runs, where it differs from that in spec.',
      },
      graceSeconds: {
        type: 'integer',
        minimum: 0,
        description: 'terminationGracePeriodSeconds of the template that the server runs.',
      },
      maintenanceSource: {
        ...text,
        description: 'Who announced nextScheduledMaintenance, and for what: server, node or backend.',
      },
      appliedMetadata: {
        type: 'object',
        description:
          'The edited labels and annotations in metadata that the data include. What differs from them is applied once.',
        properties: {
          labels: unbounded(serverDataSchema.labels),
          annotations: unbounded(serverDataSchema.annotations),
        },
      },
      startedSessions: {
        type: 'integer',
        minimum: 1,
        description: 'The highest number that a session of the server has or had.',
      },
      ...sessionFields(),
      sessions: sessionList(),
      ending: {
        description: 'Why the server is Terminating.',
        type: 'object',
        required: ['reason', 'message', 'crash', 'at'],
        properties: {
          reason: { ...textOrEmpty, description: 'One word for programs.' },
          message: { ...textOrEmpty, description: 'A sentence for people.' },
          crash: { type: 'boolean', description: 'Whether it counts as a crash of the build.' },
          at: { ...unbounded(time), description: 'When it began to terminate.' },
          exitCode: { type: 'integer', description: 'With which the process crashed.' },
        },
      },
      writtenUpon: {
        ...text,
        description:
          "What this write replaced: the object's resourceVersion before it, as known to the host, and the term of its leadership after an @. Or an entry of the journal.",
      },
    },
  }
}

const { spec: players } = gameServerDetailSchema.properties

const details: Resource = {
  kind: 'GameServerDetail',
  shortNames: ['gsd', 'gkd'],
  columns: [{ name: 'Players', type: 'integer', jsonPath: '.spec.connectedPlayersCount' }, age],
  schema: {
    description: gameServerDetailSchema.description,
    type: 'object',
    required: ['spec'],
    properties: {
      spec: {
        description: players.description,
        type: 'object',
        required: ['build', ...players.required],
        properties: {
          build: { ...text, description: 'Name of the build of its server.' },
          ...eachOf(players.properties, structural),
          writtenUpon,
        },
      },
    },
  },
}

const numbers = (description: string) => ({ type: 'array', items: { type: 'integer', minimum: 0 }, description })
const counts = { type: 'object', additionalProperties: { type: 'integer', minimum: 0 } }
const bins = 'how many, by bin. Bin 0 has those up to 100 ms, and each bin ends a tenth later than the one before it.'

const demand: Resource = {
  kind: 'GameServerDemand',
  shortNames: ['gsdm', 'gkdm'],
  columns: [{ name: 'Build', type: 'string', jsonPath: '.spec.build' }, age],
  schema: {
    description: 'The demand for a build on one day, minute by minute. Written by the host that leads.',
    type: 'object',
    required: ['spec'],
    properties: {
      spec: {
        description: 'What was counted. Minutes after the end of a list are 0.',
        type: 'object',
        required: ['build', 'day', 'asked', 'refused', 'inUse', 'waits', 'starts', 'sessions'],
        properties: {
          build: { ...text, description: 'Name of the build.' },
          day: { ...text, description: 'The date in UTC.' },
          asked: numbers('Callers who came in each minute.'),
          refused: numbers('How many of them were refused at least once, because no server was ready.'),
          inUse: numbers('The most servers in use in each minute.'),
          waits: { ...counts, description: `Waits of callers: ${bins}` },
          starts: { ...counts, description: `Times until servers were standing by: ${bins}` },
          sessions: {
            type: 'object',
            additionalProperties: counts,
            description: `Lengths of sessions, by the hour in which they ended: ${bins}`,
          },
          writtenUpon,
        },
      },
    },
  },
}

const journals: Resource = {
  kind: 'GameServerJournal',
  shortNames: ['gsj', 'gkj'],
  columns: [age],
  schema: {
    description:
      'Allocations that were made together and are durable before the statuses of their GameServers show them, which is within a second. Written by the host that leads. Do not edit it.',
    type: 'object',
    properties: {
      spec: {
        description: 'The entries, and who has written them.',
        type: 'object',
        properties: {
          owner: { ...text, description: 'The term of leadership in which it was written.' },
          entries: {
            type: 'array',
            items: text,
            description: 'One for each GameServer: a keyed hash, and its new status as JSON.',
          },
          writtenUpon,
        },
      },
    },
  },
}

export const definitions: readonly object[] = [builds, servers, details, demand, allocations, journals].map(
  definitionOf,
)

function definitionOf({ kind, shortNames, subresources, columns, schema }: Resource): object {
  const singular = kind.toLowerCase()
  const plural = `${singular}s`
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${defaultApiGroup}` },
    spec: {
      group: defaultApiGroup,
      scope: 'Namespaced',
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames, categories: ['gamekeeper'] },
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          ...(subresources && { subresources }),
          additionalPrinterColumns: columns,
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  }
}
