/** Parses addresses of the page's views. Pure. */
import type { Ref } from '../../../rules/model/resources.js'

export interface Route {
  readonly view: 'overview' | 'build' | 'server' | 'servers' | 'sessions' | 'players' | 'events' | 'try' | 'unknown'
  /** The build or server. */
  readonly ref: Ref
  readonly query: Readonly<Record<string, string>>
}

const simple: ReadonlyMap<string, Route['view']> = new Map([
  ['', 'overview'],
  ['servers', 'servers'],
  ['sessions', 'sessions'],
  ['players', 'players'],
  ['events', 'events'],
  ['try', 'try'],
])
const withRef: ReadonlyMap<string, Route['view']> = new Map([
  ['builds', 'build'],
  ['servers', 'server'],
])

export function parseRoute(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#?\/?/, '').split('?')
  const [first = '', ...rest] = path.split('/')
  const query = Object.fromEntries(new URLSearchParams(search))
  const [namespace = '', name = ''] = rest.map((part) => decoded(part))
  const isRef = rest.length === 2 && namespace !== '' && name !== ''
  const view = (isRef ? withRef.get(first) : rest.length === 0 ? simple.get(first) : undefined) ?? 'unknown'
  return { view, ref: { namespace, name }, query }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
