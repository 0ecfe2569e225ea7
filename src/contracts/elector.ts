/**
 * Elector: decides which of several hosts with a shared store leads. Only the leader reconciles and allocates. A host with a
 * store of its own always leads.
 */
export interface ElectionListener {
  /** This host leads from now on. */
  elected(): void
  /** This host no longer leads and must stop acting at once. `leader` names the host that leads, if known. */
  lost(leader?: string): void
}

export interface Elector {
  /** Takes part in the election until the returned function is called, which also gives up leadership. */
  run(listener: ElectionListener): () => Promise<void>
}

export const alwaysLeader: Elector = Object.freeze({
  run(listener: ElectionListener) {
    listener.elected()
    return () => Promise.resolve()
  },
})
