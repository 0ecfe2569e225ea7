/** Allocations: the schemas of the requests and the response, and the checks that a schema cannot express. Pure. */
import {
  checkCounterChanges,
  dataKey,
  dataName,
  labelsSchema,
  labelText,
  listValue,
  serverDataUpdateSchema,
} from '../lifecycle/server-data.js'
import {
  type AllocationOrder,
  allocationOrders,
  type AllocationRequest,
  type LabelExpression,
  labelOperators,
  type OwnAllocationRequest,
  selectableStates,
} from '../model/allocation-request.js'
import { sessionKey } from '../model/names.js'
import type { BuildSpec } from '../model/resources.js'
import { sizeLimits } from '../model/sizes.js'
import { type Checked, invalid, isObject, type Refused, shown, valid } from './problem.js'
import type { ArraySchema, MapSchema, ObjectSchema } from './schema.js'
import { allocatedPorts, count, guid, initialPlayers, kib, namespace, serverRef, sessionID } from './shared-schemas.js'
import { compile, compileFields, type Validator } from './validator.js'

const labelExpression = {
  id: 'LabelExpression',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a label expression: { key, operator, values }',
  description: 'A condition on a label, as in Kubernetes.',
  required: ['key', 'operator'],
  properties: {
    key: { ...dataKey, description: 'Key of the label.', examples: ['map'] },
    operator: {
      type: 'string',
      enum: labelOperators,
      description: 'In and NotIn compare with values; NotIn is also true of a server without the label.',
    },
    values: {
      type: 'array',
      items: labelText,
      minItems: 1,
      maxItems: sizeLimits.selectorValues,
      expected: 'an array of label values',
      description: 'Required for In and NotIn, not allowed for the others.',
      examples: [['dust', 'canyon']],
    },
  },
} as const satisfies ObjectSchema

const serverSelector = {
  id: 'ServerSelector',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'a selector object',
  description:
    'A server fits if it is of one of the builds and meets all conditions. Names builds by builds, buildLabels or both.',
  properties: {
    builds: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      minItems: 1,
      maxItems: sizeLimits.selectorBuilds,
      expected: 'an array of at least one buildID',
      description: `At most ${sizeLimits.selectorBuilds} buildIDs. Those that no build has are passed over.`,
      examples: [['arena', 'arena-canary']],
    },
    buildLabels: {
      ...labelsSchema,
      expected: 'an object of at least one label',
      description: `Labels that the build must have in its spec. Without builds, every build that has them is named, at most ${sizeLimits.labelledBuilds}.`,
      examples: [{ game: 'arena' }],
    },
    state: {
      type: 'string',
      enum: selectableStates,
      description:
        'ready (default): a server that is standing by. active: a server that runs sessions and has room for another one, in a build with sessionsPerServer; of several, the one with the most sessions is taken.',
    },
    matchLabels: {
      type: 'object',
      keys: dataKey,
      additionalProperties: labelText,
      expected: 'an object of labels',
      description: 'Labels that the server must have.',
      examples: [{ map: 'dust' }],
    },
    matchExpressions: {
      type: 'array',
      items: labelExpression,
      maxItems: sizeLimits.selectorConditions,
      expected: 'an array of label expressions',
      description: 'Conditions on labels. All must be true.',
    },
    counters: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with minCount or minAvailable',
        minProperties: 1,
        properties: {
          minCount: { ...count, description: 'The least count.' },
          minAvailable: { ...count, description: 'The least that must be left up to the capacity.', examples: [4] },
        },
      },
      expected: 'an object of conditions by counter',
      description: 'A server without the counter does not fit.',
    },
    lists: {
      type: 'object',
      keys: dataName,
      additionalProperties: {
        type: 'object',
        unknownFields: 'refuse',
        expected: 'an object with contains or minAvailable',
        minProperties: 1,
        properties: {
          contains: { ...listValue, description: 'A value that the list must have.' },
          minAvailable: { ...count, description: 'The least that must be left up to the capacity.' },
        },
      },
      expected: 'an object of conditions by list',
      description: 'A server without the list does not fit.',
    },
  },
} as const satisfies ObjectSchema

export const allocationOrder = {
  id: 'AllocationOrder',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an order: { by, counter }',
  description:
    'Which of the servers that fit the same selector is taken. Those that run the current template go first. Of equal ones, the one that has been standing by for longest is taken.',
  required: ['by'],
  properties: {
    by: {
      type: 'string',
      enum: allocationOrders,
      description:
        'first-ready: the server that has been standing by for longest. newest: for the shortest time. packed: one on the machine where the most servers of the fleet have a session; distributed: where the fewest have. least-available, most-available: by what the counter has left up to its capacity.',
      examples: ['packed'],
    },
    counter: {
      ...dataName,
      description: 'Required for least-available and most-available, not allowed for the others.',
    },
  },
} as const satisfies ObjectSchema

export const serverSelectors = {
  type: 'array',
  items: serverSelector,
  minItems: 1,
  maxItems: sizeLimits.selectors,
  expected: 'an array of at least one selector',
  description: `Which servers fit, most wanted first: the first selector that any server fits wins. At most ${sizeLimits.selectors} selectors, each with at most ${sizeLimits.selectorConditions} conditions of a kind. Not beside buildID.`,
} as const satisfies ArraySchema

const { labels, annotations, counters, lists } = serverDataUpdateSchema.properties

const ignoredTexts = {
  type: 'object',
  description: 'Ignored.',
  additionalProperties: { type: 'string', mayBeEmpty: true },
} as const satisfies MapSchema

export const allocationRequest = {
  id: 'AllocationRequest',
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an allocation request object',
  description: 'A request to allocate a server to a session: one of a build, or one that fits a selector.',
  required: ['sessionID'],
  alternatives: [['buildID'], ['select'], ['server']],
  properties: {
    buildID: {
      type: 'string',
      minLength: 1,
      description: 'The spec.buildID of the build to allocate from. Exactly one of this, select and server is set.',
      examples: ['85ffe8da-c82f-4035-86c5-9d2b5f42d6f6'],
    },
    select: serverSelectors,
    server: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with the name of a server',
      description:
        'The server to allocate, also if it is reserved. It has to be standing by, since such a request does not wait. Not beside order.',
      required: ['name'],
      properties: {
        name: { type: 'string', minLength: 1, description: 'Name of the server.', examples: ['arena-k3x9q'] },
        namespace: { ...namespace, description: 'Namespace of the server. Default: `default`.' },
        // The metadata of a server may be given as they are.
        creationTimestamp: { type: 'string', description: 'Ignored.' },
        labels: ignoredTexts,
        annotations: ignoredTexts,
      },
    },
    order: allocationOrder,
    sessionID: {
      ...sessionID,
      description:
        'The same sessionID always gets the same server. Spaces are allowed only between other characters. GUIDs are compared without regard to case, all other ids exactly.',
      examples: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301', 'ranked/eu-7'],
    },
    sessionCookie: {
      type: 'string',
      maxBytes: sizeLimits.sessionCookieBytes,
      description: `Passed to the game server through its SDK. At most ${kib(sizeLimits.sessionCookieBytes)} of UTF-8.`,
    },
    initialPlayers: {
      ...initialPlayers,
      description: `Ids of the players who are expected to connect first. Passed to the game server through its SDK. At most ${sizeLimits.initialPlayers} ids, with at most ${sizeLimits.playerIDBytes} bytes of UTF-8 each and ${kib(sizeLimits.initialPlayersBytes)} together.`,
      examples: [['amie']],
    },
    labels: { ...labels, description: 'Labels to set on the server together with the session; null removes one.' },
    annotations: {
      ...annotations,
      description: 'Annotations to set on the server together with the session; null removes one.',
    },
    counters: {
      ...counters,
      description:
        'Changes of counters, together with the session. A server that they would take out of range does not fit.',
    },
    lists: {
      ...lists,
      description: 'Changes of lists, together with the session. A server that they would overfill does not fit.',
    },
  },
} as const satisfies ObjectSchema

/** What a game sends to take its own server. */
const ownAllocationRequest = {
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object, which may be empty',
  properties: {
    sessionID: allocationRequest.properties.sessionID,
    sessionCookie: allocationRequest.properties.sessionCookie,
    initialPlayers: allocationRequest.properties.initialPlayers,
    endedSession: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with sessionID and number',
      required: ['sessionID', 'number'],
      properties: { sessionID, number: { type: 'integer', minimum: 1 } },
    },
  },
} as const satisfies ObjectSchema

/** The request where only GUIDs are accepted. */
export const guidAllocationRequest = {
  ...allocationRequest,
  properties: {
    ...allocationRequest.properties,
    sessionID: {
      ...guid,
      description: 'A GUID. The same sessionID always gets the same server.',
      examples: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301'],
    },
  },
} as const satisfies ObjectSchema

const allocationDetails = {
  id: 'AllocationDetails',
  type: 'object',
  description: 'More about the server of a session.',
  required: ['server', 'address', 'ports'],
  properties: {
    server: serverRef,
    address: { type: 'string', description: 'The same as IPV4Address.', examples: ['203.0.113.9'] },
    ports: allocatedPorts,
    buildMismatch: {
      type: 'object',
      description: 'Present if the session already had a server of another build than the requested one.',
      required: ['requested', 'actual'],
      properties: {
        requested: { type: 'string', description: 'The buildID in the request.' },
        actual: { type: 'string', description: "The buildID of the server's build." },
      },
    },
  },
} as const satisfies ObjectSchema

export const allocation = {
  id: 'Allocation',
  type: 'object',
  description: 'The server that was allocated to a session.',
  required: ['IPV4Address', 'Ports', 'SessionID'],
  properties: {
    IPV4Address: {
      type: 'string',
      description: 'Address that players connect to.',
      examples: ['203.0.113.9'],
    },
    Ports: {
      type: 'string',
      description: 'Comma-separated `container:public` pairs. Players connect to the public port.',
      examples: ['7777:10003'],
    },
    SessionID: { type: 'string', description: 'The sessionID of the request.' },
    details: { ...allocationDetails, description: 'Absent in a compatibility format.' },
  },
} as const satisfies ObjectSchema

const checkAllocationRequest = compile(allocationRequest)

const allocationFields = compileFields(allocationRequest)

/** Reads what a game sends to take its own server. */
export const readOwnAllocation: Validator<OwnAllocationRequest> = compile(ownAllocationRequest)

/**
 * Reads the body of an allocation. The result is a copy. A field that is null is absent: serializers of C# and Go write what
 * is not set so.
 */
export function readAllocationRequest(body: unknown): Checked<AllocationRequest> {
  const request = readRequest(body)
  // Valid requests, which are on the hot path, are read only once.
  if (request.ok || !isObject(body)) return request
  const fields = Object.entries(body)
  const given = fields.filter(([, value]) => value !== null)
  if (given.length < fields.length) return readAllocationRequest(Object.fromEntries(given))
  const [wrong, right] = wrongCase(body) ?? []
  return wrong === undefined ? request : invalid(wrong, `must be written ${right}: the case of letters matters`)
}

/** Returns a field that is known in another case, and the known one, which is absent. */
function wrongCase(body: Readonly<Record<string, unknown>>): readonly [string, string] | undefined {
  for (const known of Object.keys(allocationRequest.properties)) {
    if (known in body) continue
    const wrong = Object.keys(body).find((name) => name.toLowerCase() === known.toLowerCase())
    if (wrong !== undefined) return [wrong, known]
  }
  return undefined
}

function readRequest(body: unknown): Checked<AllocationRequest> {
  if (!isObject(body)) return checkAllocationRequest(body)
  // This is on the hot path of allocations: reading the fields in a loop would take 50 % longer.
  const { buildID, select, server, order, sessionID, sessionCookie, initialPlayers } = body
  const { labels, annotations, counters, lists } = body
  const changes = labels !== undefined || annotations !== undefined || counters !== undefined || lists !== undefined
  if (select !== undefined || server !== undefined || order !== undefined || changes) return readSelection(body)
  const known = 2 + Number(sessionCookie !== undefined) + Number(initialPlayers !== undefined)
  const isValid =
    Object.keys(body).length === known &&
    buildID !== undefined &&
    allocationFields.buildID(buildID) &&
    allocationFields.sessionID(sessionID) &&
    allocationFields.sessionCookie(sessionCookie) &&
    allocationFields.initialPlayers(initialPlayers)
  if (!isValid) return readSelection(body)
  const players = initialPlayers && [...initialPlayers]
  // Four separate literals, because spreading optional fields would cost as much as the rest of this function.
  if (sessionCookie === undefined) {
    return valid(players === undefined ? { buildID, sessionID } : { buildID, sessionID, initialPlayers: players })
  }
  return valid(
    players === undefined
      ? { buildID, sessionID, sessionCookie }
      : { buildID, sessionID, sessionCookie, initialPlayers: players },
  )
}

function readSelection(body: unknown): Checked<AllocationRequest> {
  const request: Checked<AllocationRequest> = checkAllocationRequest(body)
  if (!request.ok) return request
  return checkSelection(request.value) ?? valid(copyOfRequest(request.value))
}

/** Field by field, because `structuredClone` takes longer than all the rest of an allocation. */
function copyOfRequest(request: AllocationRequest): AllocationRequest {
  const copy: Record<string, unknown> = {}
  for (const name in allocationRequest.properties) {
    const value: unknown = Reflect.get(request, name)
    if (value !== undefined) copy[name] = plainCopy(value)
  }
  return copy as unknown as AllocationRequest
}

function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy)
  if (!isObject(value)) return value
  const copy = { ...value }
  for (const name in copy) {
    const part = copy[name]
    if (typeof part === 'object') copy[name] = plainCopy(part)
  }
  return copy
}

/** Reads the requests of a batch. The result is a copy. Refuses a session that is named twice. */
export function readBatch(requests: unknown): Checked<readonly AllocationRequest[]> {
  if (!Array.isArray(requests) || requests.length === 0) {
    return invalid('requests', `must be an array of at least one allocation request, but is ${shown(requests)}`)
  }
  const { length } = requests
  if (length > sizeLimits.batch)
    return invalid('requests', `must have at most ${sizeLimits.batch} items, but has ${length}`)
  const checked: AllocationRequest[] = []
  const places = new Map<string, number>()
  for (const [i, request] of requests.entries()) {
    const one = readAllocationRequest(request)
    if (!one.ok) {
      const { field, message } = one.problem
      return invalid(field === 'body' ? `requests[${i}]` : `requests[${i}].${field}`, message)
    }
    const { sessionID } = one.value
    const other = places.get(sessionKey(sessionID))
    if (other !== undefined) {
      return invalid(
        `requests[${i}].sessionID`,
        `must not repeat requests[${other}].sessionID, which is ${shown(sessionID)}`,
      )
    }
    places.set(sessionKey(sessionID), i)
    checked.push(one.value)
  }
  return valid(checked)
}

/** Checks the selectors and changes of a request that the schema has accepted. */
export function checkSelection(request: Partial<AllocationRequest>): Refused | undefined {
  for (const [i, selector] of (request.select ?? []).entries()) {
    const { builds, buildLabels } = selector
    if (builds === undefined && Object.keys(buildLabels ?? {}).length === 0) {
      return invalid(`select[${i}]`, 'must name builds: set builds, or buildLabels to at least one label')
    }
    for (const part of ['buildLabels', 'matchLabels', 'counters', 'lists'] as const) {
      const conditions = selector[part]
      if (!conditions) continue
      const size = Object.keys(conditions).length
      const max = sizeLimits.selectorConditions
      if (size > max) return invalid(`select[${i}].${part}`, `must have at most ${max} entries, but has ${size}`)
    }
    for (const [j, expression] of (selector.matchExpressions ?? []).entries()) {
      const problem = problemOf(expression)
      if (problem !== undefined) return invalid(`select[${i}].matchExpressions[${j}].values`, problem)
    }
  }
  if (request.server && request.order) return invalid('order', 'is not allowed beside server')
  return (request.order && checkOrder(request.order)) ?? checkCounterChanges(request)
}

/** Checks the labels and the order in a spec, which the schema has accepted. */
export function checkBuildSelection({
  labels = {},
  order,
  counters = {},
}: Pick<BuildSpec, 'labels' | 'order' | 'counters'>): Refused | undefined {
  const size = Object.keys(labels).length
  if (size > sizeLimits.buildLabels) {
    return invalid('spec.labels', `must have at most ${sizeLimits.buildLabels} entries, but has ${size}`)
  }
  if (!order) return undefined
  const { counter } = order
  const refused = checkOrder(order, 'spec.')
  if (refused || counter === undefined || Object.hasOwn(counters, counter)) return refused
  return invalid('spec.order.counter', `must be one of spec.counters, which has no ${counter}`)
}

function checkOrder({ by, counter }: AllocationOrder, prefix: '' | 'spec.' = ''): Refused | undefined {
  const needsCounter = by === 'least-available' || by === 'most-available'
  if (needsCounter && counter === undefined) return invalid(`${prefix}order.counter`, `must be set for the order ${by}`)
  return needsCounter || counter === undefined
    ? undefined
    : invalid(`${prefix}order.counter`, `is not allowed for the order ${by}`)
}

/** Of the values. */
function problemOf({ operator, values }: LabelExpression): string | undefined {
  const needsValues = operator === 'In' || operator === 'NotIn'
  if (needsValues && values === undefined) return `must be set for the operator ${operator}`
  return needsValues || values === undefined ? undefined : `is not allowed for the operator ${operator}`
}
