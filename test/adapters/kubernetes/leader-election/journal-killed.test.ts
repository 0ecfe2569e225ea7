/** The leader is killed in the middle of a burst, when many sessions are in its journal alone. */
import { randomUUID } from 'node:crypto'
import { expect, it, vi } from 'vitest'
import { startSubject } from '../../../bench/subject.js'
import { kubectl } from '../support/cluster.js'
import { describeOnCluster } from '../support/describe-on-cluster.js'
import { open } from '../support/forwarding-host.js'
import { ownNamespace } from '../support/own-namespace.js'
import { freeHollowPods, hollowBuild, removePods } from '../support/scale-fleet.js'

const file = new URL('../support/forwarding-host.ts', import.meta.url).href
const servers = 64
const waitOptions = { timeout: 120_000, interval: 200 }

describeOnCluster('a leader that is killed during a burst', () => {
  const space = ownNamespace(removePods)

  it(
    'loses no session that it has answered, and the next one gives none a second server',
    { timeout: 400_000 },
    async () => {
      await vi.waitFor(async () => expect(await freeHollowPods()).toBeGreaterThanOrEqual(servers), waitOptions)
      const namespace = space()
      const { buildID } = hollowBuild(namespace, servers).spec
      const options = { namespace, servers, leaseMs: 5_000 }
      const leader = await startSubject(file, open, options)
      const hosts = [leader]
      try {
        await leader.fill()
        // Later, since the next leader does not know the games that the first one sends heartbeats for.
        const next = await startSubject(file, open, options)
        hosts.push(next)
        await vi.waitFor(async () => expect(await next.isReady()).toBe(true), waitOptions)
        const answers = new Map<string, string>()
        const [to, then] = [(await leader.urls()).allocate, (await next.urls()).allocate]
        const allocate = async (url: string, sessionID: string) => {
          const body = JSON.stringify({ buildID, sessionID })
          const headers = { 'content-type': 'application/json' }
          const response = await fetch(url, { method: 'POST', body, headers })
          const { details } = JSON.parse(await response.text())
          return String(details.server.name)
        }
        const sessions = Array.from({ length: servers }, () => randomUUID())
        // Killed as soon as a quarter has been answered.
        let killed: Promise<void> | undefined
        const burst = sessions.map(async (session) => {
          answers.set(session, await allocate(to, session))
          if (answers.size >= servers / 4) killed ??= leader.stop()
        })
        await Promise.allSettled(burst)
        await killed
        expect(answers.size).toBeGreaterThanOrEqual(servers / 4)

        await vi.waitFor(async () => expect(await next.leads()).toBe(true), waitOptions)
        const servedBy = new Map<string, string>()
        for (const session of sessions) servedBy.set(session, await allocate(then, session))
        for (const [session, server] of answers) expect(servedBy.get(session)).toBe(server)
        expect(new Set(servedBy.values()).size).toBe(servers)
        await vi.waitFor(async () => {
          const rows = await kubectl('get', 'gs', '-n', namespace, '-o', 'json')
          const shown = JSON.parse(rows).items.map(({ metadata, status }: Shown) => [status.sessionID, metadata.name])
          expect(new Map(shown)).toEqual(servedBy)
        }, waitOptions)
      } finally {
        await Promise.all(hosts.map((host) => host.stop()))
      }
    },
  )
})

interface Shown {
  readonly metadata: { readonly name: string }
  readonly status: { readonly sessionID: string }
}
