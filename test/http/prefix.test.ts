/** Routes below a path that the framework does not remove, as in a Next.js route handler. */
import { fleetRoutes } from 'gamekeeper/http'
import { expect, it, onTestFinished } from 'vitest'
import { call, listening } from './client.js'
import { memoryFleet } from './fleet.js'

it('fetch and nodeHandler serve the paths below the prefix, and no others', async () => {
  const fleet = await memoryFleet()
  onTestFinished(() => fleet.close())
  const routes = fleetRoutes(fleet, { prefix: '/fleet/' })
  const { url, close } = await listening(routes.nodeHandler)
  onTestFinished(close)
  const paths = ['/fleet/api/v1/gameservers', '/api/v1/gameservers', '/fleets/api/v1/gameservers', '/fleet']
  const fetched = await Promise.all(paths.map((path) => routes.fetch(new Request(`http://localhost${path}`))))
  expect(fetched.map(({ status }) => status)).toEqual([200, 404, 404, 404])
  const called = await Promise.all(paths.map((path) => call('GET', url + path, { validate: false })))
  expect(called.map(({ status }) => status)).toEqual([200, 404, 404, 404])
  expect(() => fleetRoutes(fleet, { prefix: 'fleet' })).toThrow(
    'fleetRoutes: prefix must be a path that begins with a slash',
  )
})
