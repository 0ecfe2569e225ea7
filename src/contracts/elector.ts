/**
 * Decides which of several hosts on one shared store may act. Only the leader reconciles and allocates.
 * A host with a store of its own always leads.
 */
export interface ElectionListener {
  /** This host leads from now on. */
  elected(): void
  /** This host leads no more: it must stop acting at once. `leader` names the one that does, when known. */
  lost(leader?: string): void
}

export interface Elector {
  /** Takes part until the returned function is called; that gives leadership up. */
  run(listener: ElectionListener): () => Promise<void>
}

export const alwaysLeader: Elector = Object.freeze({
  run(listener: ElectionListener) {
    listener.elected()
    return () => Promise.resolve()
  },
})
