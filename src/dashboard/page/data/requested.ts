/** An action that was chosen in the box that finds: its dialog opens once the view that has its button is shown. */
import { signal } from '@preact/signals'
import type { CommandedAction } from './commands.js'

interface Requested {
  /** The address of the view, without a query. */
  readonly view: string
  readonly action: CommandedAction
}

/** How long a view may take to be shown. */
const lapseMs = 5_000

const requested = signal<Requested | undefined>(undefined)

export function requestAction(view: string, action: CommandedAction): void {
  const request = { view, action }
  requested.value = request
  // A view without such a button does not get it later.
  setTimeout(() => {
    if (requested.peek() === request) requested.value = undefined
  }, lapseMs)
}

/** Whether the button with this name was asked for in the view that is shown. Says so once. */
export function takeRequest(name: string): boolean {
  const wanted = requested.value
  if (wanted === undefined || wanted.view !== location.hash.split('?')[0]) return false
  if (name !== wanted.action && !name.startsWith(`${wanted.action} `)) return false
  requested.value = undefined
  return true
}
