/** `gamekeeper doctor`: the clock and the rights that a host needs in a cluster. */
import { KubernetesApi } from '../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../adapters/kubernetes/client/kube-config.js'
import { keySecretName } from '../../../adapters/kubernetes/store/fleet-key.js'
import { systemClock } from '../../contracts/clock.js'
import { messageOf } from '../../contracts/errors.js'
import { isObject } from '../../rules/validation/problem.js'
import type { Config } from '../../server/settings.js'
import type { Finding } from './doctor-games.js'

/** The API server accepts tokens that seem to be at most this far from their time. */
const maxSkewMs = 60_000
const timeoutMs = 10_000

const statuses = 'gameserverbuilds/status gameservers/status gameserverallocations/status'
const mend = 'give this user Roles like those in examples/kubernetes/gamekeeper.yaml'

/** One right. Without a namespace: in all. `resource` may contain a subresource. */
export interface Right {
  readonly group: string
  readonly resource: string
  readonly verb: string
  readonly namespace?: string
  /** The only object that it concerns. */
  readonly name?: string
}

/** What examples/kubernetes gives to the service account of the hosts, which run in `ownNamespace`. */
export function rightsOf(
  config: Pick<Config, 'apiGroup' | 'namespaces' | 'systemNamespace' | 'podName'>,
  ownNamespace: string,
): readonly Right[] {
  const { apiGroup, namespaces, podName } = config
  const system = config.systemNamespace ?? namespaces?.toSorted()[0] ?? 'default'
  const inOne = (namespace: string | undefined, group: string, resources: string, verbs: string) =>
    resources
      .split(' ')
      .flatMap((resource) =>
        verbs
          .split(' ')
          .map((verb): Right => ({ group, resource, verb, ...(namespace !== undefined && { namespace }) })),
      )
  const everywhere = namespaces ?? [undefined]
  return [
    ...inOne(undefined, '', 'nodes', 'list watch'),
    ...everywhere.flatMap((namespace) => [
      ...inOne(namespace, apiGroup, 'gameserverbuilds gameservers', 'get list watch create patch delete'),
      ...inOne(namespace, apiGroup, 'gameserverdetails', 'get list create patch delete'),
      ...inOne(namespace, apiGroup, 'gameserverallocations', 'get list watch delete'),
      ...inOne(namespace, apiGroup, statuses, 'update'),
      ...inOne(namespace, '', 'pods', 'get list watch create patch delete'),
      ...inOne(namespace, '', 'pods/log', 'get'),
      ...inOne(namespace, '', 'secrets', 'create'),
      ...inOne(namespace, '', 'events', 'list create'),
    ]),
    ...inOne(system, '', 'secrets', 'create'),
    ...inOne(system, '', 'secrets', 'get list watch patch').map((right) => ({ ...right, name: keySecretName })),
    ...inOne(system, apiGroup, 'gameserverjournals', 'get create update'),
    ...inOne(system, 'coordination.k8s.io', 'leases', 'get list watch create update'),
    ...(podName === undefined ? [] : inOne(ownNamespace, '', 'pods', 'list patch')),
  ]
}

export interface ClusterFinding extends Finding {
  /** False if the cluster could not be asked. */
  readonly isAnswered: boolean
}

export async function checkCluster(config: Config): Promise<readonly ClusterFinding[]> {
  let api: KubernetesApi | undefined
  try {
    api = new KubernetesApi({
      config: defaultKubeConfig(),
      clock: systemClock,
      callTimeoutMs: timeoutMs,
      requestsPerSecond: 200,
      connections: 16,
    })
    const findings = await Promise.all([checkSkew(api), checkRights(api, config)])
    return findings.map((finding) => ({ ...finding, isAnswered: true }))
  } catch (error) {
    return [{ check: 'rights', ok: false, message: `not checked: ${messageOf(error)}; ${mend}`, isAnswered: false }]
  } finally {
    api?.close()
  }
}

async function checkSkew(api: KubernetesApi): Promise<Finding> {
  const check = 'clock of the cluster'
  const sentAt = Date.now()
  const { body, stop } = await api.open({ what: 'read the version', method: 'GET', path: '/version' })
  const middle = (sentAt + Date.now()) / 2
  stop()
  const theirs = Date.parse(body.headers.date ?? '')
  if (Number.isNaN(theirs)) return { check, ok: true, message: 'not checked, since the API server sends no Date' }
  return skewFinding(middle - theirs)
}

/** The header has whole seconds, and the lease works with any skew: its holders compare no clocks. */
export function skewFinding(aheadMs: number): Finding {
  const check = 'clock of the cluster'
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  if (Math.abs(aheadMs) <= maxSkewMs)
    return { check, ok: true, message: `differs from this machine's by ${seconds} s or less` }
  const how = `this machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the API server`
  return {
    check,
    ok: false,
    message: `${how}; tokens and certificates may be refused, and times are wrong; set its clock, for example with timedatectl set-ntp true`,
  }
}

async function checkRights(api: KubernetesApi, config: Config): Promise<Finding> {
  const check = 'rights'
  const rights = rightsOf(config, api.namespace ?? 'default')
  const allowed = await Promise.all(rights.map((right) => isAllowed(api, right)))
  const missing = rights.filter((_, index) => !allowed[index]).map(inWords)
  if (missing.length === 0) return { check, ok: true, message: `all ${rights.length} that a host needs` }
  return { check, ok: false, message: `may not ${[...new Set(missing)].join(', ')}; ${mend}` }
}

async function isAllowed(api: KubernetesApi, { group, resource, verb, namespace = '', name }: Right): Promise<boolean> {
  const [kind, subresource = ''] = resource.split('/')
  const review = await api.request({
    what: 'review a right',
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { group, resource: kind, subresource, verb, namespace, name } },
    },
  })
  const status = isObject(review) ? review['status'] : undefined
  return isObject(status) && status['allowed'] === true
}

function inWords({ resource, verb, namespace, name }: Right): string {
  return `${verb} ${resource}${name === undefined ? '' : ` ${name}`}${namespace === undefined ? '' : ` in ${namespace}`}`
}
