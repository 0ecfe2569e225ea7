import { randomUUID } from 'node:crypto'
import { memoryBackend } from 'gamekeeper/memory'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import type { KubernetesApi } from '../../../../adapters/kubernetes/client/api.js'
import { defaultKubeConfig } from '../../../../adapters/kubernetes/client/kube-config.js'
import { leaseElector } from '../../../../adapters/kubernetes/leader-election/elector.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { silentLogger } from '../../../../src/contracts/logger.js'
import { until } from '../../../e2e/until.js'
import { clusterApi, kubectl, kubectlWith, namespaceName } from '../support/cluster.js'
import { countingProxy } from '../support/counting-proxy.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { apiOf } from '../support/fake-api-server.js'
import { buildManifest, openFleet } from '../support/fleets.js'
import { ownNamespaces } from '../support/own-namespace.js'

const leaseMs = 15_000
/** For tests that wait for its end. */
const shortLeaseMs = 8_000
const waitsForEnd = { timeout: 240_000 }
/** So long that neither its end nor the next poll comes within a test. */
const longLeaseMs = 3_600_000

interface Means {
  readonly by?: KubernetesApi
  readonly ms?: number
}

describeOnCluster('leader election by a Lease', () => {
  const { api, make } = ownNamespaces()
  const namespace = namespaceName()
  beforeAll(() => make(namespace))

  let named = 0
  const newLease = () => `lease-${++named}`
  const elector = (name: string, identity: string, { by = api, ms = leaseMs }: Means = {}) => {
    const [clock, logger] = [systemClock, silentLogger]
    return leaseElector({ api: by, clock, logger, namespace, name, identity, leaseMs: ms })
  }

  /** A host that takes part until the test ends. */
  function candidate(name: string, identity: string, means?: Means) {
    const host = { identity, leads: false, leader: undefined as string | undefined, changes: [] as string[] }
    const resign = elector(name, identity, means).run({
      elected() {
        host.leads = true
        host.changes.push('elected')
      },
      lost(leader) {
        host.leads = false
        host.leader = leader
        host.changes.push(`lost to ${leader ?? 'unknown'}`)
      },
    })
    onTestFinished(resign)
    return Object.assign(host, { resign })
  }

  it('one of many hosts leads, and the others know its name', async () => {
    const name = newLease()
    const hosts = ['a', 'b', 'c', 'd'].map((identity) => candidate(name, identity))
    await until('all are notified', () => hosts.every(({ leads, leader }) => leads || leader !== undefined))
    const leaders = hosts.filter(({ leads }) => leads)
    expect(leaders).toHaveLength(1)
    const others = hosts.filter(({ leads }) => !leads)
    expect(new Set(others.map(({ leader }) => leader))).toEqual(new Set([leaders[0]?.identity]))
    const shown = await kubectl('-n', namespace, 'get', 'lease', name, '-o', 'jsonpath={.spec.holderIdentity}')
    expect(shown).toBe(leaders[0]?.identity)
  })

  it('a leader that resigns is replaced at once, without waiting for the lease', async () => {
    const name = newLease()
    const first = candidate(name, 'first', { ms: longLeaseMs })
    await until('the first leads', () => first.leads)
    const second = candidate(name, 'second', { ms: longLeaseMs })
    await until('the second is notified', () => second.leader === 'first')
    await first.resign()
    await until('the second leads', () => second.leads)
  })

  it('a host that does not lead makes no requests while it watches the leader renew its lease', async () => {
    const name = newLease()
    const ms = 10_000
    const first = candidate(name, 'first', { ms })
    await until('the first leads', () => first.leads)
    const proxy = await countingProxy(defaultKubeConfig())
    onTestFinished(() => proxy.close())
    const own = apiOf(proxy.config)
    const second = candidate(name, 'second', { by: own, ms })
    await until('the second is notified', () => second.leader === 'first')
    await until('it watches', () => proxy.requests.some((request) => request.includes('watch=true')))
    const renewal = () => kubectl('-n', namespace, 'get', 'lease', name, '-o', 'jsonpath={.spec.renewTime}')
    const renewed = async () => {
      const before = await renewal()
      await until('the lease is renewed', async () => (await renewal()) !== before)
    }
    // The first poll, if there is one, ends with this.
    await renewed()
    const before = proxy.requests.length
    await renewed()
    await renewed()
    expect(proxy.requests.slice(before)).toEqual([])
    // Nothing but the watch tells that the leader is alive, and when it is not.
    await first.resign()
    await until('the second leads', () => second.leads)
  })

  it('a disconnected leader stops before another host takes over', waitsForEnd, async () => {
    const name = newLease()
    const own = clusterApi()
    const first = candidate(name, 'first', { by: own, ms: shortLeaseMs })
    await until('the first leads', () => first.leads)
    const second = candidate(name, 'second', { ms: shortLeaseMs })
    await until('the second is notified', () => second.leader === 'first')
    // Simulates a broken connection: none of its requests arrive.
    const cutOff = { value: () => Promise.reject(new FleetError('unavailable', 'cut off')) }
    Object.defineProperties(own, { object: cutOff, list: cutOff, open: cutOff })
    await until('the second leads', () => {
      expect(first.leads && second.leads).toBe(false)
      return second.leads
    })
    expect(first.changes).toEqual(['elected', 'lost to unknown'])
    own.close()
  })

  it(
    'a leader steps down at its next renewal when its Lease was edited to name another host',
    waitsForEnd,
    async () => {
      const name = newLease()
      const first = candidate(name, 'first', { ms: shortLeaseMs })
      await until('it leads', () => first.leads)
      const patch = '{"spec":{"holderIdentity":"another"}}'
      await kubectl('-n', namespace, 'patch', 'lease', name, '--type', 'merge', '-p', patch)
      await until('it does not lead', () => first.leader === 'another')
      await until('it leads again once that lease has expired', () => first.leads)
    },
  )

  it('a Lease deleted by hand is recreated by the leader, and no other host leads meanwhile', async () => {
    const name = newLease()
    const first = candidate(name, 'first')
    await until('it leads', () => first.leads)
    const others = ['b', 'c', 'd'].map((identity) => candidate(name, identity))
    await until('all are notified', () => others.every(({ leader }) => leader === 'first'))
    await kubectl('-n', namespace, 'delete', 'lease', name)
    const holder = () => kubectl('-n', namespace, 'get', 'lease', name, '-o', 'jsonpath={.spec.holderIdentity}')
    expect(await until('there is a Lease again', () => holder().catch(() => undefined))).toBe('first')
    expect(first.changes.at(-1)).toBe('elected')
    expect(others.flatMap(({ changes }) => changes)).not.toContain('elected')
  })

  it('a fleet that does not lead rejects allocations, names the leader, and takes over when it resigns', async () => {
    const name = newLease()
    // Both reach the same game servers.
    const backend = memoryBackend({ clock: systemClock })
    const first = await openFleet(api, namespace, { backend, elector: elector(name, 'host-1') })
    await kubectlWith(buildManifest(namespace, 'arena', { standingBy: 2, max: 4 }), 'apply', '-f', '-')
    await until('two stand by', async () => {
      const { status } = await first.builds.get({ namespace, name: 'arena' })
      return status.currentStandingBy === 2
    })
    const second = await openFleet(api, namespace, { backend, elector: elector(name, 'host-2') })
    const request = { buildID: 'id-of-arena', sessionID: randomUUID() }
    const refusal: unknown = await second.allocate(request).catch((error: unknown) => error)
    expect(FleetError.is(refusal, 'not-leader') && refusal.retryable && refusal.message).toContain('host-1 does')
    const allocated = await first.allocate(request)
    await first.close()
    const again = await until('the second returns the same server', () => second.allocate(request))
    expect(again).toEqual(allocated)
  })
})
