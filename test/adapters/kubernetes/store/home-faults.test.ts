/** Whose the builds are, when that cannot be read at once. */
import { expect, it, vi } from 'vitest'
import { until } from '../../../e2e/until.js'
import { respond, statusOf } from '../support/fake-api-server.js'
import { fakeKeyServer, hastyClock, withKey } from '../support/fake-key-server.js'

vi.setConfig({ testTimeout: 120_000 })

it.each([403, 500])('a host starts although the list of builds answers %i, and looks again', async (status) => {
  const server = await fakeKeyServer(withKey(1))
  const metadata = { namespace: 'games', name: 'arena', uid: 'u', resourceVersion: '9' }
  server.builds = [{ metadata, spec: {}, status: { home: 'elsewhere' } }]
  server.intercept = (kind, _, response) => {
    if (kind !== 'gameserverbuilds') return false
    respond(response, status, statusOf(status, 'Unwilling'))
    return true
  }
  const lines: string[] = []
  const host = await server.open('a', { clock: hastyClock, lines })
  expect(lines).toContainEqual(expect.stringContaining('cannot find out whose the builds are'))
  await expect(host.builds.list()).rejects.toThrow('Unwilling')
  server.intercept = () => false
  await until('it knows', () => host.obstacle?.includes('belongs to the fleet with the system namespace elsewhere'))
  expect(host.obstacle).toContain('copy the Secret gamekeeper-key')
  expect(host.obstacle).toContain('kubectl annotate gsb --all --overwrite -n <namespace>')
  server.builds = []
  await until('it can lead', () => host.obstacle === undefined)
})
