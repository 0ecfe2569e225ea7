/** The keys that the page knows. */
import type { Signal } from '@preact/signals'
import { Dialog } from '../parts/dialog.js'

const keys = [
  ['Ctrl K  /', 'find a build, server, session, player, address or port; or say what to do: “scale arena”, “drain …”'],
  ['g o', 'go to the overview'],
  ['g m', 'go to the servers, with their map'],
  ['g s', 'go to the sessions'],
  ['g p  g e  g t', 'go to the players, the events, or “Try it”'],
  ['j  k', 'go to the next row, or the one before'],
  ['Enter', 'open the row'],
  ['↑ ↓ Enter', 'choose among what was found'],
  ['Tab', 'go from one control to the next; lists scroll with the arrow keys'],
  ['Esc', 'close what is open'],
  ['?', 'this help'],
] as const

export function Help({ shows }: { readonly shows: Signal<boolean> }) {
  if (!shows.value) return null
  return (
    <Dialog title="Keys" onClose={() => (shows.value = false)}>
      <dl class="keys">
        {keys.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p class="quiet">
        The page follows the fleet by itself. All addresses can be kept and shared; they contain no secret. What it is
        made of: <a href="dashboard/licences.txt">licences</a>.
      </p>
    </Dialog>
  )
}
