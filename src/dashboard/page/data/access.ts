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

/** What the caller may do: at all, under the empty key, and to builds and servers. The latest asked last. */
const known = signal<ReadonlyMap<string, Operations>>(new Map())
const maxKnown = 500
/** The latest question about each: an answer to an earlier one, or about a caller who has signed out, does not count. */
let questions = new Map<string, object>()

export const rights = {
  /** True also while it is not known: the host decides in any case. */
  may(name: OperationName, to?: Ref): boolean {
    return known.value.get(to === undefined ? '' : keyOf(to))?.has(name) ?? true
  },
  /** What the caller may do at all, or to a build or server. */
  async read(to?: Ref): Promise<void> {
    const question = {}
    const asked = questions
    const key = to === undefined ? '' : keyOf(to)
    asked.set(key, question)
    const query = to === undefined ? '' : `?${new URLSearchParams({ namespace: to.namespace, name: to.name })}`
    try {
      const response = await callHost(`${baseUrl}/dashboard/rights${query}`, {})
      if (!response.ok) return
      const body: { readonly operations: readonly OperationName[] } = await response.json()
      if (questions !== asked || asked.get(key) !== question) return
      const others = [...known.peek()].filter(([one]) => one !== key)
      known.value = new Map([...others, [key, new Set(body.operations)] as const].slice(-maxKnown))
    } catch {
      // The event stream says whether the host answers.
    } finally {
      if (asked.get(key) === question) asked.delete(key)
    }
  },
  forget(): void {
    questions = new Map()
    known.value = new Map()
  },
}
