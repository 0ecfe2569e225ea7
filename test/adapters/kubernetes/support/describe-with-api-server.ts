/** Tests that kill the API server, left out when it is not a process of this machine. */
import { describe } from 'vitest'
import { type ApiServerProcess, findApiServer } from './api-server-process.js'
import { type Describe, leaveOut } from './describe-on-cluster.js'

const server = await findApiServer()
const why = 'the API server is not a process of this machine'

export const describeWithApiServer: Describe = server === undefined ? leaveOut(why) : describe

export function apiServerProcess(): ApiServerProcess {
  if (server === undefined) throw new Error(why)
  return server
}
