/** Tests that kill the API server: where it is no process of this machine, they say in a test of their own that they are left out. */
import { describe } from 'vitest'
import { type ApiServerProcess, findApiServer } from './api-server-process.js'
import { type Describe, leaveOut } from './describe-on-cluster.js'

const server = await findApiServer()
const why = 'the API server is no process of this machine, that could be killed'

export const describeWithApiServer: Describe = server === undefined ? leaveOut(why) : describe

export function apiServerProcess(): ApiServerProcess {
  if (server === undefined) throw new Error(why)
  return server
}
