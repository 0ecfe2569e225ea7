/** Small parts that all views use. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { FleetError } from '../../../contracts/errors.js'
import type { Health, ServerState } from '../../../rules/model/resources.js'
import { now } from '../data/live.js'
import { duration, stateWords } from '../data/words.js'

// Made once: to make one takes longer than to draw the row of a table.
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hourCycle: 'h23' })
const mediumFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const fullFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })

/** How long ago, with the exact instant in the reader's zone on hover. */
export function Ago({ at }: { readonly at: number }) {
  if (at === 0) return <span class="quiet">unknown</span>
  const age = Math.max(0, Math.max(now.value, Date.now()) - at)
  return (
    <time dateTime={new Date(at).toISOString()} title={instant(at)}>
      {age < 2_000 ? 'just now' : `${duration(age)} ago`}
    </time>
  )
}

export function Clock({ at }: { readonly at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={instant(at)}>
      {clockFormat.format(at)}
    </time>
  )
}

/** For times to come. */
export function Instant({ at }: { readonly at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={instant(at)}>
      {mediumFormat.format(at)}
    </time>
  )
}

function instant(at: number): string {
  return `${fullFormat.format(at)} (${new Date(at).toISOString()})`
}

export function StateTag({ state }: { readonly state: ServerState }) {
  return <span class={`tag state-${state}`}>{stateWords[state]}</span>
}

export function HealthTag({ health }: { readonly health: Health }) {
  if (health === 'Healthy') return <span class="quiet">healthy</span>
  return health === 'Unknown' ? <span class="quiet">–</span> : <span class="tag bad">unhealthy</span>
}

export interface NoticeProps {
  readonly title: string
  readonly kind?: 'info' | 'bad'
  /** It is all that the view has, so its title is the page's heading. */
  readonly isView?: boolean
  readonly children?: ComponentChildren
}

/** For views without content: empty, loading, failed. */
export function Notice({ title, kind = 'info', isView = false, children }: NoticeProps) {
  return (
    <div class={`notice ${kind}`} role={kind === 'bad' ? 'alert' : undefined}>
      {isView ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children}
    </div>
  )
}

export function Failure({ title, error }: { readonly title: string; readonly error: FleetError }) {
  return (
    <Notice title={title} kind="bad" isView>
      <p>{error.message}</p>
      <p class="quiet">
        Error code <code>{error.code}</code>
      </p>
    </Notice>
  )
}

export function Loading({ what }: { readonly what: string }) {
  return (
    <p class="loading" role="status">
      Reading {what}…
    </p>
  )
}

/** `name` completes "Copy". */
export function CopyButton({ text, name }: { readonly text: string; readonly name: string }) {
  const isCopied = useSignal(false)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  // Browsers have it only for pages that come over HTTPS or from this machine.
  const clipboard: Clipboard | undefined = navigator.clipboard
  if (clipboard === undefined) return null
  const copy = async () => {
    await clipboard.writeText(text)
    isCopied.value = true
    timer.current = setTimeout(() => (isCopied.value = false), 1_500)
  }
  return (
    <button type="button" class="small" aria-label={`Copy ${name}`} onClick={() => void copy()}>
      <span aria-live="polite">{isCopied.value ? 'Copied' : 'Copy'}</span>
    </button>
  )
}

export function Section({ title, aside, children }: SectionProps) {
  return (
    <section class="panel">
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  )
}

export interface SectionProps {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children?: ComponentChildren
}
