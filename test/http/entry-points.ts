/** Both entry points of the routes as servers: `nodeHandler` on `node:http`, and `fetch` on @hono/node-server. */
import { getRequestListener } from '@hono/node-server'
import type { Routes } from '../../src/http/index.js'
import { type Listener, listening } from './client.js'

export interface EntryPoint {
  readonly name: 'nodeHandler' | 'fetch'
  open(routes: Routes): Promise<Listener>
}

export const entryPoints: readonly EntryPoint[] = [
  { name: 'nodeHandler', open: (routes) => listening(routes.nodeHandler) },
  {
    name: 'fetch',
    open(routes) {
      const listener = getRequestListener(routes.fetch, { overrideGlobalObjects: false })
      return listening((request, response) => void listener(request, response))
    },
  },
]
