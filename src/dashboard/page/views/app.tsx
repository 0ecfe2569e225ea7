/** The frame of every view: navigation, search, the state of the connection, and the view itself. */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { isOwnSignIn, token } from '../data/access.js'
import { failure, isLoaded, link, signOut, staleness } from '../data/live.js'
import { linkTo, route } from '../data/router.js'
import type { Route } from '../data/routes.js'
import { rememberedPlace, rememberPlace } from '../data/scroll-places.js'
import { LateFailures } from '../changes/late-failures.js'
import { Failure, Loading, Notice } from '../parts/parts.js'
import { BuildView } from './build.js'
import { ConnectionState } from './connection-state.js'
import { EventsView } from './events.js'
import { Help } from './help.js'
import { useKeys } from './keys.js'
import { Overview } from './overview.js'
import { ProblemBar } from './problems/problem-bar.js'
import { StaleBanner } from './problems/stale-banner.js'
import { PlayersView } from './sessions/players.js'
import { SearchBox } from './search-box.js'
import { ServerView } from './server.js'
import { ServersView } from './servers.js'
import { SessionsView } from './sessions.js'
import { NoRight, SignedOut, SignIn } from './sign-in.js'
import { TryItView } from './try-it.js'

const places = [
  ['overview', linkTo.overview, 'Overview'],
  ['servers', linkTo.servers, 'Servers'],
  ['sessions', linkTo.sessions, 'Sessions'],
  ['players', linkTo.players, 'Players'],
  ['events', linkTo.events, 'Events'],
  ['try', linkTo.tryIt, 'Try it'],
] as const

export function App() {
  const showsHelp = useSignal(false)
  const search = useRef<HTMLInputElement>(null)
  const main = useRef<HTMLElement>(null)
  const head = useRef<HTMLElement>(null)
  useEffect(() => keepBelow(head.current), [])
  useKeys({ onFind: () => search.current?.focus(), onHelp: () => (showsHelp.value = true) })
  const current = route.value
  const isFirstView = useRef(true)
  useEffect(() => {
    const onScroll = () => rememberPlace('page', scrollY)
    addEventListener('scroll', onScroll, { passive: true })
    return () => removeEventListener('scroll', onScroll)
  }, [])
  // Before the next paint: a shorter view scrolls the page up, which is not where the reader has left it.
  useLayoutEffect(() => {
    document.title = titleOf(current)
    // A reader who follows a link begins at the top of the new view, with the keyboard and a screen reader, too; one who goes
    // back, where the view was left.
    scrollTo(0, rememberedPlace('page'))
    if (!isFirstView.current) main.current?.focus({ preventScroll: true })
    isFirstView.current = false
  }, [current.view, current.ref.namespace, current.ref.name])

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skipTo(event, main.current)}>
        Skip to content
      </a>
      <header class="top" ref={head}>
        <a class="brand" href={linkTo.overview}>
          <img src="dashboard/icon.svg" alt="" width="24" height="24" />
          gamekeeper
        </a>
        <nav aria-label="Views">
          {places.map(([view, href, name]) => (
            <a key={view} href={href} aria-current={current.view === view ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <SearchBox input={search} />
        <ConnectionState />
        {token.value === '' ? null : (
          <button type="button" class="small" onClick={signOut}>
            Sign out
          </button>
        )}
        <button type="button" class="small round" aria-label="Help" onClick={() => (showsHelp.value = true)}>
          ?
        </button>
      </header>
      <LateFailures />
      {isOfNoFleet() ? null : (
        <>
          <StaleBanner />
          <ProblemBar />
        </>
      )}
      <main id="main" ref={main} tabIndex={-1} class={staleness.value ? 'stale' : ''}>
        <Content route={current} />
      </main>
      <Help shows={showsHelp} />
    </>
  )
}

/** The caller may not see the fleet, or another host leads it. */
function isOfNoFleet(): boolean {
  return link.value.state === 'refused' || failure.value?.code === 'not-leader'
}

function Content({ route: { view, ref, query } }: { readonly route: Route }) {
  if (link.value.state === 'refused') {
    const { error } = link.value
    if (error.code !== 'unauthenticated') return <NoRight error={error} />
    return isOwnSignIn(error) ? <SignedOut /> : <SignIn />
  }
  if (failure.value?.code === 'not-leader') return <NotLeader />
  if (!isLoaded.value) {
    if (failure.value) return <Failure title="The fleet cannot be read" error={failure.value} />
    if (link.value.state === 'lost') return <Failure title="The host does not answer" error={link.value.error} />
    return <Loading what="the fleet" />
  }
  const key = `${ref.namespace}/${ref.name}`
  switch (view) {
    case 'overview':
      return <Overview />
    case 'build':
      return <BuildView key={key} of={ref} />
    case 'server':
      return <ServerView key={key} of={ref} />
    case 'servers':
      return <ServersView query={query} />
    case 'sessions':
      return <SessionsView query={query} />
    case 'players':
      return <PlayersView query={query} />
    case 'events':
      return <EventsView query={query} />
    case 'try':
      return <TryItView />
    case 'unknown':
      return (
        <Notice title="There is nothing at this address" isView>
          <p>
            <a href={linkTo.overview}>Go to the overview</a>
          </p>
        </Notice>
      )
  }
}

function NotLeader() {
  return (
    <Notice title="Another host leads this fleet" isView>
      <p>
        This host stands by and cannot show the fleet. Open the dashboard of the leader, or wait: this page continues by
        itself when this host becomes the leader.
      </p>
    </Notice>
  )
}

function titleOf({ view, ref }: Route): string {
  const place = ref.name || (view === 'overview' ? '' : view)
  return place === '' ? 'gamekeeper' : `${place} · gamekeeper`
}

/** What is scrolled into view is not behind the head of the page, which has more lines on a narrow screen. */
function keepBelow(head: HTMLElement | null): (() => void) | undefined {
  if (head === null) return undefined
  const observer = new ResizeObserver(() => {
    const { style } = document.documentElement
    style.scrollPaddingTop = `${head.offsetHeight + 8}px`
    style.setProperty('--head', `${head.offsetHeight}px`)
  })
  observer.observe(head)
  return () => observer.disconnect()
}

/** The address after `#` belongs to the view. */
function skipTo(event: Event, main: HTMLElement | null): void {
  event.preventDefault()
  main?.focus()
}
