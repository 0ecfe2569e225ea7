/** The key of the fleet: restored while a host knows it, and missed by a host that does not. */
import { createFleet } from 'gamekeeper'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { openKubernetesStore } from '../../../../adapters/kubernetes/store/store.js'
import { systemClock } from '../../../../src/contracts/clock.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { defaultApiGroup } from '../../../../src/rules/model/wire.js'
import { minimalServer } from '../../../../src/testing/records.js'
import { until } from '../../../e2e/until.js'
import { kubectl, kubectlWith } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { ownNamespaces } from '../support/own-namespace.js'
import { nextRange } from '../support/support.js'

const name = 'gamekeeper-key'
const otherKey = Buffer.alloc(32, 9).toString('base64')

describeOnCluster('the key of the fleet', () => {
  vi.setConfig({ testTimeout: 120_000 })
  const { api, make } = ownNamespaces()

  /** A namespace with a host, and a server that it has recorded. `host` opens another one. */
  async function scene() {
    const namespace = await make()
    const k = (...args: readonly string[]) => kubectl('-n', namespace, ...args)
    const host = async () => {
      const lines: string[] = []
      const log = (_: object, message: string) => lines.push(message)
      const logger: Logger = { debug() {}, info: log, warn: log, error: log }
      const place = { group: defaultApiGroup, systemNamespace: namespace, namespaces: [namespace] }
      const store = await openKubernetesStore({ api, clock: systemClock, logger, ...place })
      onTestFinished(() => store.close())
      const tokens = async () => (await store.servers.list()).map(({ record }) => record.token)
      return { store, lines, tokens }
    }
    const first = await host()
    const server = { ...minimalServer({ namespace, name: 'arena-1' }), token: 'a token' }
    await first.store.servers.create(server)
    const keyNow = () => k('get', 'secret', name, '--ignore-not-found', '-o', 'jsonpath={.data.key}')
    const original = await keyNow()
    const isRestored = () => until('the key is restored', async () => (await keyNow()) === original)
    const remove = () => k('delete', 'secret', name)
    const put = (key: string) => k('patch', 'secret', name, '-p', JSON.stringify({ data: { key } }))
    return { namespace, k, host, first, keyNow, isRestored, remove, put, original }
  }

  describe('is restored', () => {
    it.each([
      ['deleted', ({ remove }: Scene) => remove()],
      ['replaced by another key', ({ put }: Scene) => put(otherKey)],
      ['edited to something that is no key', ({ put }: Scene) => put('eA==')],
    ])('by a host that knows it when it was %s, with an Event and a line in the log', async (_, damage) => {
      const all = await scene()
      await damage(all)
      await all.isRestored()
      await until('there is a line', () => all.first.lines.some((line) => line.includes('restored by a host')))
      const reasons = () => all.k('get', 'events', '-o', 'jsonpath={.items[*].reason} {.items[*].involvedObject.kind}')
      await until('there is an Event', async () => (await reasons()).includes('KeyRestored'))
      expect(await reasons()).toContain('Secret')
      expect(await all.first.tokens()).toEqual(['a token'])
      expect(all.first.store.obstacle).toBeUndefined()
    })

    it('when two hosts know it, also again', async () => {
      const all = await scene()
      const second = await all.host()
      for (const damage of [all.remove, () => all.put(otherKey), all.remove]) {
        await damage()
        await all.isRestored()
      }
      for (const host of [all.first, second]) {
        expect(await host.tokens()).toEqual(['a token'])
        expect(host.store.obstacle).toBeUndefined()
      }
    })

    it('by a leader that has no servers yet, although a new host has made another', async () => {
      const all = await scene()
      await all.k('delete', 'gs', '--all')
      await all.first.store.close()
      const place = { group: defaultApiGroup, systemNamespace: all.namespace, namespaces: [all.namespace] }
      const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
      const options = { api, clock: systemClock, logger, ...place, isLeading: () => true }
      const leader = await openKubernetesStore(options)
      onTestFinished(() => leader.close())
      await all.put(otherKey)
      await all.isRestored()
    })
  })

  describe('a host that does not know it', () => {
    it('makes no other while tokens are recorded, says what to do, and goes on when the Secret is back', async () => {
      const all = await scene()
      await all.first.store.close()
      await all.remove()
      const { store, lines } = await all.host()
      expect(store.obstacle).toMatch(/is missing.*restore it from a backup.*kubectl create secret generic/)
      expect(lines.filter((line) => line.startsWith('this host cannot lead: secret'))).toHaveLength(1)
      expect(await all.keyNow()).toBe('')
      const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name }, data: { key: all.original } }
      await kubectlWith(JSON.stringify(secret), '-n', all.namespace, 'create', '-f', '-')
      await until('it can lead', () => store.obstacle === undefined)
      expect((await store.servers.list()).map(({ record }) => record.token)).toEqual(['a token'])
    })

    it('makes another when an operator says, by an empty Secret, that it is lost; and so does the next host', async () => {
      const all = await scene()
      await all.first.store.close()
      await all.remove()
      const second = await all.host()
      await all.k('create', 'secret', 'generic', name)
      await until('it can lead', () => second.store.obstacle === undefined)
      expect(await all.keyNow()).not.toBe(all.original)
      const third = await all.host()
      expect(third.store.obstacle).toBeUndefined()
      expect(await third.tokens()).toEqual(await second.tokens())
      expect(await third.tokens()).not.toEqual(['a token'])
    })

    it('says so when the Secret contains another, and follows the host that restores it', async () => {
      const all = await scene()
      await all.first.store.close()
      await all.put(otherKey)
      const late = await all.host()
      expect(late.store.obstacle).toContain('contains another key')
      await all.put(all.original)
      await until('it can lead', () => late.store.obstacle === undefined)
      expect(await late.tokens()).toEqual(['a token'])
    })

    it('does not lead, and names the Secret to callers', async () => {
      const all = await scene()
      await all.first.store.close()
      await all.remove()
      const places = { namespaces: [all.namespace], systemNamespace: all.namespace, portRange: nextRange(10) }
      const backend = kubernetesBackend({ ...places, leaseMs: 15_000 })
      const fleet = await createFleet({ backend, agent: { external: '192.0.2.1:56001' } })
      onTestFinished(() => fleet.close())
      const refusal = await fleet.allocate({ buildID: 'b', sessionID: 's' }).catch((error: unknown) => error)
      expect(refusal).toMatchObject({ code: 'not-leader', message: expect.stringContaining(`/${name} is missing`) })
    })
  })

  type Scene = Awaited<ReturnType<typeof scene>>
})
