/** Required node affinity, as the scheduler evaluates it. */
import { expect, it } from 'vitest'
import { matchesNodeAffinity } from '../../../../adapters/kubernetes/nodes/node-affinity.js'

const node = { metadata: { name: 'node1', labels: { pool: 'games', cores: '16' } } }
const ofPool = (operator: string, ...values: readonly string[]) => ({ key: 'pool', operator, values })
const expressions = (...matchExpressions: readonly object[]) => ({ matchExpressions })
const fields = (operator: string, ...values: readonly string[]) => ({
  matchFields: [{ key: 'metadata.name', operator, values }],
})

it.each<[name: string, terms: readonly object[], matches: boolean]>([
  ['In, with the label', [expressions(ofPool('In', 'web', 'games'))], true],
  ['In, with another label', [expressions(ofPool('In', 'web'))], false],
  ['NotIn, with another label', [expressions(ofPool('NotIn', 'web'))], true],
  ['NotIn, with the label', [expressions(ofPool('NotIn', 'games'))], false],
  ['NotIn, without the label', [expressions({ key: 'zone', operator: 'NotIn', values: ['a'] })], true],
  ['Exists', [expressions(ofPool('Exists'))], true],
  ['Exists, without the label', [expressions({ key: 'zone', operator: 'Exists' })], false],
  ['DoesNotExist', [expressions({ key: 'zone', operator: 'DoesNotExist' })], true],
  ['Gt', [expressions({ key: 'cores', operator: 'Gt', values: ['8'] })], true],
  ['Gt, with too little', [expressions({ key: 'cores', operator: 'Gt', values: ['16'] })], false],
  ['Lt', [expressions({ key: 'cores', operator: 'Lt', values: ['32'] })], true],
  ['Lt, of what is no number', [expressions({ key: 'pool', operator: 'Lt', values: ['32'] })], false],
  ['an unknown operator', [expressions(ofPool('Like', 'games'))], false],
  ['the name of the node', [fields('In', 'node1')], true],
  ['the name of another node', [fields('In', 'node2')], false],
  ['both requirements of a term', [expressions(ofPool('Exists'), ofPool('In', 'web'))], false],
  ['one of two terms', [fields('In', 'node2'), expressions(ofPool('Exists'))], true],
  ['a term without requirements', [{}], false],
  ['no terms', [], false],
])('%s', (_, nodeSelectorTerms, matches) => {
  const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } }
  expect(matchesNodeAffinity(node, { spec: { affinity: { nodeAffinity: required } } })).toBe(matches)
})

it('a preference and a template without affinity require nothing', () => {
  const preferred = { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }] }
  expect(matchesNodeAffinity(node, { spec: { affinity: { nodeAffinity: preferred } } })).toBe(true)
  expect(matchesNodeAffinity(node, {})).toBe(true)
})
