/**
 * Elector: decides which of the hosts that share a store is the leader. Only the leader reconciles and allocates. A host
 * whose store is not shared is always the leader.
 */
export interface ElectionListener {
  /** This host has become the leader. */
  elected(): void
  /** This host is no longer the leader and must stop acting immediately. `leader` names the new leader, if known. */
  lost(leader?: string): void
  /**
   * This host can neither lead nor find out who does, such as without valid credentials. May be called again; undefined once it can.
   * After a minute, this host reports that it cannot lead.
   */
  blocked?(cause: string | undefined): void
}

export interface Elector {
  /** Takes part in the election until the returned function is called. That function also gives up leadership. */
  run(listener: ElectionListener): () => Promise<void>
}

export const alwaysLeader: Elector = Object.freeze({
  run(listener: ElectionListener) {
    listener.elected()
    return () => Promise.resolve()
  },
})
