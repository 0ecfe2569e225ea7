/** The messages of Agones' `allocation.AllocationService`, by the numbers of their fields, and of the standard health service. */
import type { Message } from './protobuf.js'

const texts = { type: 'string', many: 'map' } as const
const labelSelector: Message = { 1: { name: 'matchLabels', ...texts } }
const metaPatch: Message = { 1: { name: 'labels', ...texts }, 2: { name: 'annotations', ...texts } }

const expression: Message = {
  1: { name: 'key', type: 'string' },
  2: { name: 'operator', type: 'int32' },
  3: { name: 'values', type: 'string', many: 'list' },
}

const counterSelector: Message = {
  1: { name: 'minCount', type: 'int64' },
  2: { name: 'maxCount', type: 'int64' },
  3: { name: 'minAvailable', type: 'int64' },
  4: { name: 'maxAvailable', type: 'int64' },
}

const listSelector: Message = {
  1: { name: 'containsValue', type: 'string' },
  2: { name: 'minAvailable', type: 'int64' },
  3: { name: 'maxAvailable', type: 'int64' },
}

const gameServerSelector: Message = {
  1: { name: 'matchLabels', ...texts },
  2: { name: 'gameServerState', type: 'int32' },
  4: { name: 'counters', type: counterSelector, many: 'map' },
  5: { name: 'lists', type: listSelector, many: 'map' },
  6: { name: 'matchExpressions', type: expression, many: 'list' },
}

const priority: Message = {
  1: { name: 'type', type: 'int32' },
  2: { name: 'key', type: 'string' },
  3: { name: 'order', type: 'int32' },
}

const counterAction: Message = {
  1: { name: 'action', type: 'string?' },
  2: { name: 'amount', type: 'int64?' },
  3: { name: 'capacity', type: 'int64?' },
}

const listAction: Message = {
  1: { name: 'addValues', type: 'string', many: 'list' },
  2: { name: 'capacity', type: 'int64?' },
  3: { name: 'deleteValues', type: 'string', many: 'list' },
}

export const allocationRequestMessage: Message = {
  1: { name: 'namespace', type: 'string' },
  2: {
    name: 'multiClusterSetting',
    type: { 1: { name: 'enabled', type: 'bool' }, 2: { name: 'policySelector', type: labelSelector } },
  },
  3: { name: 'requiredGameServerSelector', type: gameServerSelector },
  4: { name: 'preferredGameServerSelectors', type: gameServerSelector, many: 'list' },
  5: { name: 'scheduling', type: 'int32' },
  6: { name: 'metaPatch', type: metaPatch },
  7: { name: 'metadata', type: metaPatch },
  8: { name: 'gameServerSelectors', type: gameServerSelector, many: 'list' },
  9: { name: 'priorities', type: priority, many: 'list' },
  10: { name: 'counters', type: counterAction, many: 'map' },
  11: { name: 'lists', type: listAction, many: 'map' },
}

const capacity = { name: 'capacity', type: 'int64?' } as const

export const allocationResponseMessage: Message = {
  2: { name: 'gameServerName', type: 'string' },
  3: {
    name: 'ports',
    type: { 1: { name: 'name', type: 'string' }, 2: { name: 'port', type: 'int32' } },
    many: 'list',
  },
  4: { name: 'address', type: 'string' },
  5: { name: 'nodeName', type: 'string' },
  6: { name: 'source', type: 'string' },
  7: { name: 'metadata', type: metaPatch },
  8: {
    name: 'addresses',
    type: { 1: { name: 'type', type: 'string' }, 2: { name: 'address', type: 'string' } },
    many: 'list',
  },
  9: { name: 'counters', type: { 1: { name: 'count', type: 'int64?' }, 2: capacity }, many: 'map' },
  10: { name: 'lists', type: { 1: { name: 'values', type: 'string', many: 'list' }, 2: capacity }, many: 'map' },
}

export const healthResponseMessage: Message = { 1: { name: 'status', type: 'int32' } }
