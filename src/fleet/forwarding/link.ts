/** A fleet's link to the host that leads: who that is, and the connections to it. */
import { FleetError } from '../../contracts/errors.js'
import type { Elector, ForwardedRequest, ForwardingOptions, LeaderLink, Sent } from '../../contracts/elector.js'
import type { Store } from '../../contracts/store.js'
import { deriveKey } from '../../platform/shared-key.js'
import { Connections } from './connections.js'

const purpose = 'forwarding'

export interface OpenLink extends LeaderLink {
  /** Call when this host begins or stops to lead. */
  changed(): void
  close(): void
}

export interface LinkDependencies {
  readonly forwarding: ForwardingOptions
  readonly elector: Elector
  readonly store: Store
  readonly leads: () => boolean
}

/** Throws `invalid` if the elector does not know the leader's address, or if the hosts share no secret. */
export function openLink({ forwarding, elector, store, leads }: LinkDependencies): OpenLink {
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
    leader: () => leader,
    follow(follower: () => void) {
      followers.add(follower)
      return () => void followers.delete(follower)
    },
    send: (address: string, request: ForwardedRequest, signal: AbortSignal): Promise<Sent> =>
      connections.send(address, request, signal),
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
