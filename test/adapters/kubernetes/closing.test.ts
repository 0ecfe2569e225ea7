/** Closing a host ends although the API server does not answer. */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { expect, it } from 'vitest'
import { until } from '../../e2e/until.js'
import { configFor, fakeApiServer, respond, respondWithKey } from './support/fake-api-server.js'

it('a backend closes while a list hangs and its store is still open', async () => {
  const server = await fakeApiServer((_, response, { pathname }) => {
    if (pathname.endsWith('/secrets/gamekeeper-key')) return respondWithKey(response)
    if (/\/gameserver(s|builds)$/.test(pathname))
      respond(response, 200, { metadata: { resourceVersion: '1' }, items: [] })
  })
  const backend = kubernetesBackend({ kubeConfig: configFor(server.url), namespaces: ['games'] })
  const { defaultStore } = backend
  if (defaultStore.kind !== 'own') throw new Error('the backend has no store of its own')
  const store = await defaultStore.open()
  const listed = backend.list().catch((error: unknown) => error)
  await until('nodes are being listed', () => server.requests.some((request) => request.includes('/nodes')))
  await backend.close()
  await store.close()
  expect(await listed).toMatchObject({ code: 'closed' })
}, 50_000)
