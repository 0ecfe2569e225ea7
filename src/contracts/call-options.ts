/** The options that calls accept as their last argument, and lists that are read in pages. */

/** The last argument of every asynchronous call. */
export interface CallOptions {
  /** Aborts the call, which then rejects with `aborted`. A write that has already been sent may still take effect. */
  readonly signal?: AbortSignal
}

export interface PageOptions extends CallOptions {
  /** Maximum number of items in the page: 1 to 10,000. Default 500. */
  readonly limit?: number
  /** What the page before returned as `continue`. Default: the first page. */
  readonly continue?: string | undefined
}

/**
 * Part of a list. Items are ordered by creation time. An item that exists while a caller reads all pages is on exactly one of
 * them, even if other items are created or deleted in the meantime.
 */
export interface Page<T> {
  readonly items: readonly T[]
  /** Returns the next page. Absent from the last page. Stays valid if this host restarts or another one leads. */
  readonly continue?: string
}

/** Options of calls that read a whole list page by page. `limit` is the size of a page. */
export type AllOptions = Omit<PageOptions, 'continue'>

/** Yields the items of all pages. `read` gets the `continue` of the page before. */
export async function* itemsOf<T>(read: (next: string | undefined) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let next: string | undefined
  do {
    const page = await read(next)
    yield* page.items
    next = page.continue
  } while (next !== undefined)
}
