/** Passes heartbeats on to the host that leads. They need no proof of who sent them: the id in their path is the server's secret. */
import { setMaxListeners } from 'node:events'
import type { ForwardHeartbeat } from '../../agent/index.js'
import type { LeaderLink } from '../../contracts/elector.js'
import { type EitherSignal, eitherSignal } from '../../util/signals.js'

/** Call with the fleet's link once there is one. `closing`: ends those that the leader holds. */
export function heartbeatForwarder(link: () => LeaderLink | undefined, closing: AbortSignal): ForwardHeartbeat {
  setMaxListeners(0, closing)
  return (id, body, { prefer, signal }) => {
    const known = link()
    // This host answers if it leads, or knows no host that does.
    const leader = known === undefined || known.leads() || closing.aborted ? undefined : known.leader()
    if (known === undefined || leader === undefined) return undefined
    const stop = eitherSignal(signal, closing)
    return send(known, leader, { id, body, prefer }, stop).finally(() => stop.release())
  }
}

interface ForwardedHeartbeat {
  readonly id: string
  readonly body: string
  readonly prefer: string | undefined
}

async function send(link: LeaderLink, leader: string, { id, body, prefer }: ForwardedHeartbeat, stop: EitherSignal) {
  // The next leader has the news that a heartbeat held at the last one waits for.
  const unfollow = link.follow(() => {
    if (link.leader() !== leader) stop.abort()
  })
  const request = {
    method: 'PATCH',
    path: `/v1/sessionHosts/${encodeURIComponent(id)}`,
    headers: { 'Content-Type': 'application/json', ...(prefer !== undefined && { Prefer: prefer }) },
    body: Buffer.from(body),
  }
  try {
    const sent = await link.send(leader, request, stop.signal)
    if ('failure' in sent) return undefined
    let text = ''
    for await (const part of sent.response.text) text += part
    return { status: sent.response.status, text }
  } catch {
    return undefined // The connection broke. The game sends its next heartbeat soon.
  } finally {
    unfollow()
  }
}
