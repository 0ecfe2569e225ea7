/** The options that every asynchronous call accepts as its last argument. */
export interface CallOptions {
  /** Aborts the call, which then rejects with `aborted`. A write that has already been sent may still take effect. */
  readonly signal?: AbortSignal
}
