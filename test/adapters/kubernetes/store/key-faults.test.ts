/** The key of the fleet when several write it, when rights are missing, and when the API server does not answer. */
import { describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/contracts/clock.js'
import { until } from '../../../e2e/until.js'
import { statusOf, respond } from '../support/fake-api-server.js'
import { fakeKeyServer, hastyClock, keyOf, serverSealedWith, serverWith, withKey } from '../support/fake-key-server.js'

vi.setConfig({ testTimeout: 120_000 })

describe('who writes the key', () => {
  it('a host that was away while its key was declared lost takes the new one', async () => {
    const server = await fakeKeyServer(withKey(1))
    server.servers = [serverSealedWith(1)]
    const away = await server.open('away')
    await until('it watches', () => server.watchers() === 1)
    server.intercept = (_, host, response) => host === 'away' && Boolean(response.destroy())
    server.cutAll()
    await until('its watch has ended', () => server.watchers() === 0)
    server.set({})
    const leader = await server.open('leader', { isLeading: true })
    await until('the leader watches', () => server.watchers() === 1)
    const [lost, key] = [away, leader].map((store) => store.deriveKey('test'))
    expect(lost).not.toEqual(key)
    server.intercept = () => false
    await until('both know the new key', () => Buffer.from(away.deriveKey('test') ?? []).equals(key ?? Buffer.of()))
    expect(leader.deriveKey('test')).toEqual(key)
    expect(server.writes).toHaveLength(1)
    expect(away.obstacle).toBeUndefined()
  })

  it('waits longer each time when something keeps replacing it', async () => {
    const pauses: number[] = []
    const clock = {
      ...systemClock,
      after: (ms: number, fn: () => void) => (pauses.push(ms), systemClock.after(ms, fn)),
    }
    const server = await fakeKeyServer(withKey(1))
    server.servers = [serverSealedWith(1)]
    await server.open('leader', { isLeading: true, clock })
    server.written = () => server.set(withKey(2))
    server.set(withKey(2))
    await until('it was restored four times', () => server.writes.length >= 4)
    expect(pauses.filter((ms) => [500, 1_000, 2_000].includes(ms))).toEqual([500, 1_000, 2_000])
    server.written = () => {}
  })

  it('says again that an operator declared the old one lost, when it is restored', async () => {
    const server = await fakeKeyServer({})
    server.servers = [serverSealedWith(1)]
    const host = await server.open('a', { isLeading: true })
    const annotations = server.now()?.annotations
    expect(Object.keys(annotations ?? {})).toEqual(['mps.gamekeeper.com/replaces-lost-key'])
    await until('it watches', () => server.watchers() === 1)
    server.set(undefined)
    await until('it is restored', () => server.writes.length === 2)
    expect(server.now()?.annotations).toEqual(annotations)
    await host.close()
    expect((await server.open('b')).obstacle).toBeUndefined()
  })
})

describe('without rights, or answers', () => {
  it('a host that may not watch the Secret looks again until it can lead, and names the verbs', async () => {
    const server = await fakeKeyServer()
    server.servers = [serverSealedWith(1)]
    server.intercept = (kind, _, response) => {
      if (kind !== 'secrets' && kind !== 'watch') return false
      respond(response, 403, statusOf(403, 'Forbidden'))
      return true
    }
    const lines: string[] = []
    const host = await server.open('a', { clock: hastyClock, lines })
    expect(host.obstacle).toContain('is missing')
    await until('it says what it may not', () => lines.some((line) => line.includes('`list` and `watch`')))
    server.set(withKey(1))
    await until('it can lead', () => host.obstacle === undefined)
  })

  it('a host with an obstacle closes although the API server no longer answers', async () => {
    const server = await fakeKeyServer()
    server.servers = [serverSealedWith(1)]
    const host = await server.open('a')
    await until('it watches', () => server.watchers() === 1)
    let hanging = 0
    server.intercept = (kind) => kind === 'gameservers' && ++hanging > 0
    server.set({ data: { key: 'eA==' } })
    await until('a list hangs', () => hanging > 0)
    await host.close()
    // One that ended because it took too long would have been sent again.
    expect(hanging).toBe(1)
  }, 300_000)

  it('a host that could not open its store leaves the Secret alone', async () => {
    const server = await fakeKeyServer(withKey(1))
    server.intercept = (kind, _, response) => {
      if (kind !== 'gameserverbuilds') return false
      respond(response, 404, statusOf(404, 'NotFound'))
      return true
    }
    await expect(server.open('a')).rejects.toThrow('are the custom resource definitions installed?')
    await until('it does not watch the Secret', () => server.watchers() === 0)
    server.set(undefined)
    await server.open('b').catch(() => {})
    expect(server.now()?.data).not.toEqual(withKey(1).data)
  })
})

describe('tokens of servers', () => {
  it('count only if they can be tokens: a server made by hand stops no host', async () => {
    const server = await fakeKeyServer()
    server.servers = [serverWith('x', 'by-hand'), serverWith('bm90IGEgdG9rZW4=', 'by-hand-too')]
    const host = await server.open('a')
    expect(host.obstacle).toBeUndefined()
    expect(server.writes).toHaveLength(1)
  })

  it('are named when another key has sealed them, with the command that keeps the present key', async () => {
    const server = await fakeKeyServer(withKey(2))
    server.servers = [1, 2, 3, 4, 5].map((n) => serverSealedWith(1, `arena-${n}`))
    const host = await server.open('a')
    expect(host.obstacle).toContain('(games/arena-1, games/arena-2, games/arena-3 and 2 more)')
    const [, annotation = '', value = ''] = /--overwrite (\S+?)=(\w+)/.exec(host.obstacle ?? '') ?? []
    await until('it watches', () => server.watchers() === 1)
    server.set({ ...withKey(2), annotations: { [annotation]: value } })
    await until('it can lead', () => host.obstacle === undefined)
    expect(server.writes).toEqual([])
    expect(keyOf(2).toString('base64')).toBe(server.now()?.data?.['key'])
  })
})
