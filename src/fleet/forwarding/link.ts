/** A fleet's link to the host that leads: who that is, and the connections to it. */
import { systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import {
  type Elector,
  type ForwardedRequest,
  type ForwardingOptions,
  type LeaderLink,
  leadsPath,
  type Sent,
} from '../../contracts/elector.js'
import type { ForwardedKind, ForwardedOutcome } from '../../contracts/observer.js'
import type { Store } from '../../contracts/store.js'
import { deriveKey } from '../../platform/shared-key.js'
import type { Observers } from '../../util/observers.js'
import { Connections } from './connections.js'

const purpose = 'forwarding'
/** Every host that is asked whether it is ready asks the leader, as probes do every few seconds. */
const peerMs = 10_000

export interface OpenLink extends LeaderLink {
  /** Call when this host begins or stops to lead. */
  changed(): void
  /** Whether another host has lately sent a request, and so is there to take over. */
  hasPeer(): boolean
  close(): void
}

export interface LinkDependencies {
  readonly forwarding: ForwardingOptions
  readonly elector: Elector
  readonly store: Store
  readonly leads: () => boolean
  readonly observers: Pick<Observers, 'isEmpty' | 'timedCall'>
}

/** Throws `invalid` if the elector does not know the leader's address, or if the hosts share no secret. */
export function openLink({ forwarding, elector, store, leads, observers }: LinkDependencies): OpenLink {
  if (!elector.follow) {
    const problem = 'createFleet: forwarding needs an elector that knows the address of the leader (follow)'
    throw new FleetError('invalid', `${problem}, as that of kubernetesBackend does`)
  }
  const { address: own, secret } = forwarding
  const given = secret === undefined ? undefined : deriveKey(secret, purpose)
  if (given === undefined && !store.deriveKey) {
    throw new FleetError(
      'invalid',
      'createFleet: forwarding.secret is missing, and the store keeps no secret of its own',
    )
  }
  const key = () => given ?? store.deriveKey?.(purpose)
  const connections = new Connections(key)
  const followers = new Set<() => void>()
  let leader: string | undefined
  let isClosed = false
  let heardAt = -Infinity
  const changed = () => {
    for (const follower of [...followers]) follower()
  }
  const unfollow = elector.follow((address) => {
    const next = address === own ? undefined : address
    if (next === leader || isClosed) return
    leader = next
    connections.keepOnly(leader)
    changed()
  })
  return Object.freeze<OpenLink>({
    key,
    changed,
    leads,
    heard: () => void (heardAt = systemClock.elapsed()),
    hasPeer: () => systemClock.elapsed() - heardAt < peerMs,
    leader: () => leader,
    follow(follower: () => void) {
      followers.add(follower)
      return () => void followers.delete(follower)
    },
    async send(address: string, request: ForwardedRequest, signal: AbortSignal): Promise<Sent> {
      if (observers.isEmpty || request.path === leadsPath) return connections.send(address, request, signal)
      let outcome: ForwardedOutcome = 'unknown'
      const send = async () => {
        const sent = await connections.send(address, request, signal)
        outcome = 'failure' in sent ? sent.failure : 'ok'
        return sent
      }
      return observers.timedCall(send, (observer, _, ms) => observer.forwarded?.(kindOf(request), outcome, ms))
    },
    close() {
      if (isClosed) return
      isClosed = true
      unfollow()
      connections.close()
      // What waits for a leader learns that this host has none any more.
      leader = undefined
      changed()
    },
  })
}

/** The path of a heartbeat begins with the version of its protocol. */
function kindOf({ path }: ForwardedRequest): ForwardedKind {
  return path.startsWith('/v1/sessionHosts/') ? 'heartbeat' : 'call'
}
