/** The keys that work in every view. */
import { useEffect } from 'preact/hooks'
import type { Place } from '../data/commands.js'
import { go, linkTo } from '../data/router.js'
import { moveRow } from '../parts/row-keys.js'

/** The views, with the letters that lead to them after `g`. */
export const places: readonly Place[] = [
  { name: 'Overview', href: linkTo.overview, letter: 'o' },
  { name: 'Servers', href: linkTo.servers, letter: 'm' },
  { name: 'Sessions', href: linkTo.sessions, letter: 's' },
  { name: 'Players', href: linkTo.players, letter: 'p' },
  { name: 'Events', href: linkTo.events, letter: 'e' },
  { name: 'Try it', href: linkTo.tryIt, letter: 't' },
]

/** How long `g` waits for the letter after it. */
const sequenceMs = 1_500

export interface KeyHandlers {
  readonly onFind: () => void
  readonly onHelp: () => void
}

export function useKeys({ onFind, onHelp }: KeyHandlers): void {
  useEffect(() => {
    let wentAt = Number.NEGATIVE_INFINITY
    const onKey = (event: KeyboardEvent) => {
      if (act(event)) event.preventDefault()
    }
    const act = (event: KeyboardEvent): boolean => {
      const { key, timeStamp, target } = event
      // What is behind an open dialog gets no keys.
      if (document.querySelector('dialog[open]')) return false
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && key.toLowerCase() === 'k') {
        onFind()
        return true
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(target)) return false
      const place = timeStamp - wentAt < sequenceMs ? places.find(({ letter }) => letter === key)?.href : undefined
      wentAt = key === 'g' && place === undefined ? timeStamp : Number.NEGATIVE_INFINITY
      if (place !== undefined) go(place)
      else if (key === '/') onFind()
      else if (key === '?') onHelp()
      else if (key === 'j' || key === 'k') moveRow(key === 'j' ? 1 : -1)
      else return false
      return true
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}
