/** Tests that kill the API server: where it is no process of this machine, they say in a test of their own that they are left out. */
import { describe } from 'vitest'
import { type ApiServerProcess, findApiServer } from './api-server-process.js'
import { leaveOut } from './describe-on-cluster.js'

const server = await findApiServer()

export function describeWithApiServer(what: string, define: (server: ApiServerProcess) => void): void {
  if (server === undefined)
    leaveOut('the API server is no process of this machine, that could be killed')(what, () => {})
  else describe(what, () => define(server))
}
