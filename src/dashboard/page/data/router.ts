/** Deep links in the part of the address after `#`, which works under any prefix and never reaches the host. */
import { computed, signal } from '@preact/signals'
import type { Ref } from '../../../rules/model/resources.js'
import { parseRoute, type Route } from './routes.js'
import { arriveAt } from './scroll-places.js'

const hash = signal(location.hash)
addEventListener('hashchange', () => {
  arriveAt()
  hash.value = location.hash
})

export const route = computed<Route>(() => parseRoute(hash.value))

export function go(to: string): void {
  location.hash = to
}

/** Keeps what is typed into a filter in the address, without a step for "back". */
export function replaceQuery(query: Readonly<Record<string, string>>): void {
  const kept = Object.entries(query).filter(([, value]) => value !== '')
  const text = new URLSearchParams(kept).toString()
  const [path = ''] = location.hash.split('?')
  history.replaceState(history.state, '', text === '' ? path || '#/' : `${path || '#/'}?${text}`)
  hash.value = location.hash
}

/** Like `replaceQuery`, for some of the filters. */
export function changeQuery(change: Readonly<Record<string, string>>): void {
  replaceQuery({ ...route.peek().query, ...change })
}

export const linkTo = {
  overview: '#/',
  servers: '#/servers',
  sessions: '#/sessions',
  players: '#/players',
  events: '#/events',
  /** `at`: when the minute began, wall time in ms. */
  eventsOf: (at: number) => `#/events?minute=${at}`,
  tryIt: '#/try',
  build: (ref: Ref) => `#/builds/${pathOf(ref)}`,
  server: (ref: Ref) => `#/servers/${pathOf(ref)}`,
  /** The build, with its spec in the editor. */
  editSpec: (ref: Ref) => `#/builds/${pathOf(ref)}?edit=spec`,
  sessionsWith: (text: string) => `#/sessions?${new URLSearchParams({ text })}`,
  eventsWith: (text: string) => `#/events?${new URLSearchParams({ text })}`,
}

function pathOf({ namespace, name }: Ref): string {
  return `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}
