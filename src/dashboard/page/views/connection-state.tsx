/** Whether what the page shows is what is: live, stale, or not connected yet; and what troubles the host. */
import { isOwnSignIn } from '../data/access.js'
import { failure, health, isLoaded, link, now } from '../data/live.js'
import { duration } from '../data/words.js'

export function ConnectionState() {
  const { kind, text, detail, announced } = stateOf()
  return (
    <p class={`connection ${kind}`} title={detail}>
      <span class="dot" />
      <span aria-hidden="true">{text}</span>
      <span class="hidden" role="status">
        {announced ?? text}
      </span>
    </p>
  )
}

interface ShownState {
  readonly kind: string
  readonly text: string
  readonly detail?: string
  /** For screen readers, in place of a text that changes all the time. */
  readonly announced?: string
}

function stateOf(): ShownState {
  const { value } = link
  if (value.state === 'connecting') return { kind: 'waiting', text: 'Connecting' }
  if (value.state === 'refused')
    return { kind: 'bad', text: isOwnSignIn(value.error) ? 'Signed out' : 'Not signed in', detail: value.error.message }
  if (value.state === 'lost') {
    const age = duration(Math.max(0, Math.max(now.value, Date.now()) - value.since))
    return {
      kind: 'bad',
      text: `Stale for ${age}`,
      detail: `${value.error.message}. Reconnecting.`,
      announced: 'Stale, reconnecting',
    }
  }
  if (failure.value?.code === 'not-leader') return { kind: 'waiting', text: 'Stands by', detail: failure.value.message }
  if (failure.value) return { kind: 'bad', text: 'Cannot be read', detail: `${failure.value.message}. Trying again.` }
  if (!isLoaded.value) return { kind: 'waiting', text: 'Connecting' }
  const { problems = [] } = health.value ?? {}
  if (problems.length > 0) return { kind: 'waiting', text: 'Live, with problems', detail: problems.join('\n') }
  return { kind: 'good', text: 'Live' }
}
