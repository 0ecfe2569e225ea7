/** Callers that ask for servers and go away. */
import { randomUUID } from 'node:crypto'
import { rawConnection } from '../../../http/client.js'
import { type Abuse, attempt, preyBuild, rawRequest, send, type Target } from '../target.js'

const bodyOf = () => JSON.stringify({ buildID: preyBuild.buildID, sessionID: randomUUID() })

/** Waiting allocations behind each other on one connection, which then goes away. */
export const pipelinedAllocations: Abuse = {
  name: 'pipelined allocations',
  async run({ apis }) {
    const connections = Array.from({ length: 20 }, () => {
      const requests = Array.from({ length: 25 }, () => rawRequest('POST', '/api/v1/allocate?wait=30', bodyOf()))
      return rawConnection(apis.allocation, requests.join(''))
    })
    await Promise.allSettled(connections.map((connection) => connection.until(/HTTP\/1\.1 \d/)))
    for (const { socket } of connections) socket.destroy()
  },
}

/** Allocations that are aborted while they wait. */
export const abortedAllocations: Abuse = {
  name: 'aborted allocations',
  async run(target) {
    const url = `${target.apis.allocation}/api/v1/allocate?wait=30`
    const calls = Array.from({ length: 200 }, async (_, index) => {
      const signal = AbortSignal.timeout(1 + (index % 100) * 10)
      await send(target, 'POST', url, { body: bodyOf(), signal }).catch(() => undefined)
    })
    await Promise.all(calls)
  },
}

/** Ends every server of the attacked build at once, and with it what the other abuses have allocated. */
export const massEndings: Abuse = {
  name: 'mass endings',
  async run(target) {
    const { management } = target.apis
    const list = `${management}/api/v1/gameserverbuilds/default/${preyBuild.name}/gameservers`
    const { status, text } = await send(target, 'GET', list)
    if (status !== 200) return
    const names = (JSON.parse(text) as readonly { readonly metadata: { readonly name: string } }[]).map(
      ({ metadata }) => metadata.name,
    )
    await Promise.all(
      names.map((name) => attempt(target, 'a deletion', 'DELETE', `${management}/api/v1/gameservers/default/${name}`)),
    )
    await patchPrey(target, { standingBy: 0 })
    await patchPrey(target, { standingBy: 3 })
  },
}

async function patchPrey(target: Target, change: object): Promise<void> {
  const url = `${target.apis.management}/api/v1/gameserverbuilds/default/${preyBuild.name}`
  await attempt(target, 'a patch', 'PATCH', url, { body: JSON.stringify(change) })
}
