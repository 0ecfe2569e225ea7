/** Who the caller is: the bearer token, kept for this tab, and what it allows. */
import { signal } from '@preact/signals'
import { FleetError } from '../../../contracts/errors.js'
import { keyOf, type Ref } from '../../../rules/model/resources.js'
import type { OperationName } from '../../../http/operations.js'

const storageKey = 'gamekeeper-token'

/** Where the APIs are: beside the page, whatever the prefix. Without a slash at the end. */
export const baseUrl = new URL('.', document.baseURI).href.replace(/\/$/, '')

/** Empty if the host needs none, or has a session cookie of its own. */
export const token = signal(sessionStorage.getItem(storageKey) ?? '')

export function keepToken(text: string): void {
  if (text === '') sessionStorage.removeItem(storageKey)
  else sessionStorage.setItem(storageKey, text)
  token.value = text
}

const signInErrors = new WeakSet<Error>()

/** Whether the app that serves the page wants its own sign-in, rather than a token. */
export function isOwnSignIn(error: Error): boolean {
  return signInErrors.has(error)
}

/** Like `fetch`, with the token. Throws `unauthenticated` if the app that serves the page answers with its own sign-in. */
export async function callHost(url: string, init: RequestInit): Promise<Response> {
  const authorization = token.value === '' ? {} : { Authorization: `Bearer ${token.value}` }
  const headers = { ...Object.fromEntries(new Headers(init.headers)), ...authorization }
  // The APIs never redirect.
  const response = await fetch(url, { ...init, headers, redirect: 'manual', cache: 'no-store' })
  if (!asksToSignIn(response)) return response
  const error = new FleetError('unauthenticated', 'signed out; reload the page to sign in again')
  signInErrors.add(error)
  throw error
}

function asksToSignIn({ type, ok, status, headers }: Response): boolean {
  if (type === 'opaqueredirect') return true
  if (status === 401) return !/^Bearer\b/i.test(headers.get('www-authenticate') ?? '')
  return ok && (headers.get('content-type') ?? '').startsWith('text/html')
}

type Operations = ReadonlySet<OperationName>

const general = signal<Operations | undefined>(undefined)
/** For the one build or server that is shown. */
const ofThing = signal<{ readonly key: string; readonly operations: Operations } | undefined>(undefined)

/** The latest question of each kind: an answer to another one is about a view that was left, or a caller who has signed out. */
let latest: { readonly all: object; readonly thing: object } = { all: {}, thing: {} }

export const rights = {
  /** True also while it is not known: the host decides in any case. */
  may(name: OperationName, to?: Ref): boolean {
    if (to === undefined) return general.value?.has(name) ?? true
    const known = ofThing.value
    return known?.key === keyOf(to) ? known.operations.has(name) : true
  },
  /** What the caller may do at all, or to a build or server. */
  async read(to?: Ref): Promise<void> {
    const question = {}
    const kind = to === undefined ? 'all' : 'thing'
    latest = { ...latest, [kind]: question }
    const query = to === undefined ? '' : `?${new URLSearchParams({ namespace: to.namespace, name: to.name })}`
    try {
      const response = await callHost(`${baseUrl}/dashboard/rights${query}`, {})
      if (!response.ok) return
      const body: { readonly operations: readonly OperationName[] } = await response.json()
      if (latest[kind] !== question) return
      const operations = new Set(body.operations)
      if (to === undefined) general.value = operations
      else ofThing.value = { key: keyOf(to), operations }
    } catch {
      // The event stream says whether the host answers.
    }
  },
  forget(): void {
    latest = { all: {}, thing: {} }
    general.value = undefined
    ofThing.value = undefined
  },
}
