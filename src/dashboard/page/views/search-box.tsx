/** Finds builds, servers, sessions and players from every view, and does what can be done from everywhere. */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { rights } from '../data/access.js'
import { type Command, type CommandedAction, commandsFor, isCommand } from '../data/commands.js'
import { model } from '../data/live.js'
import { readPlaces } from '../data/places.js'
import { requestAction } from '../data/requested.js'
import { go, linkTo } from '../data/router.js'
import { type Found, prepareSearch, search } from '../data/search.js'
import { places } from './keys.js'

type Shown = Found | Command

const limit = 12

/** The keys' name on the reader's machine. */
const shortcut = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘ K' : 'Ctrl K'

export function SearchBox({ input }: { readonly input: RefObject<HTMLInputElement | null> }) {
  const text = useSignal('')
  const isOpen = useSignal(false)
  const chosen = useSignal(0)
  const found = isOpen.value ? shownFor(text.value) : []
  const leave = () => {
    isOpen.value = false
    text.value = ''
    input.current?.blur()
  }
  const choose = (one: Shown) => {
    go(linkOf(one))
    leave()
    if (one.kind === 'command' && one.action) requestAction(linkOf(one), one.action)
  }
  const onKey = (event: KeyboardEvent) => {
    const one = found[chosen.value]
    if (event.key === 'ArrowDown') chosen.value = Math.min(chosen.value + 1, found.length - 1)
    else if (event.key === 'ArrowUp') chosen.value = Math.max(chosen.value - 1, 0)
    else if (event.key === 'Escape') leave()
    else if (event.key === 'Enter' && one) {
      choose(one)
    } else return
    event.preventDefault()
  }
  return (
    <search
      class="search"
      onFocusOut={(event: FocusEvent) => {
        if (!(event.currentTarget instanceof Node) || !event.currentTarget.contains(asNode(event.relatedTarget)))
          isOpen.value = false
      }}
    >
      <input
        ref={input}
        type="text"
        placeholder={`Find or do…  ( ${shortcut} )`}
        aria-label="Find a build, server, session or player, or say what to do"
        role="combobox"
        aria-expanded={isOpen}
        aria-controls="found"
        aria-activedescendant={found.length > 0 ? `found-${chosen.value}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          text.value = event.currentTarget.value
          chosen.value = 0
          isOpen.value = true
        }}
        onFocus={() => {
          chosen.value = 0
          isOpen.value = true
          // Servers are found by their addresses, too.
          readPlaces()
          setTimeout(() => prepareSearch(model.peek()))
        }}
        onKeyDown={onKey}
      />
      {isOpen.value ? (
        <div class="found">
          <ul id="found" role="listbox" aria-label="Found">
            {found.map((one, index) => (
              <li
                key={`${one.kind} ${one.name} ${linkOf(one)}`}
                id={`found-${index}`}
                role="option"
                aria-selected={index === chosen.value}
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => choose(one)}
              >
                <span class="name">{one.name}</span> <span class="quiet">{one.note}</span>
              </li>
            ))}
          </ul>
          {found.length === 0 ? <p class="quiet">Nothing has this in its name.</p> : null}
        </div>
      ) : null}
    </search>
  )
}

/** What is found comes first, unless the text says what to do. */
function shownFor(text: string): readonly Shown[] {
  const commands = commandsFor(model.value, text, places, may, limit)
  const all = isCommand(text)
    ? [...commands, ...search(model.value, text)]
    : [...search(model.value, text), ...commands]
  return all.slice(0, limit)
}

const operations = {
  build: { Scale: 'patchBuild', Drain: 'drainBuild', Resume: 'resumeBuild', Terminate: 'deleteBuild' },
  server: { Scale: 'patchBuild', Drain: 'drainServer', Resume: 'resumeBuild', Terminate: 'deleteServer' },
} as const

function may(action: CommandedAction, to: 'build' | 'server'): boolean {
  return rights.may(operations[to][action])
}

function linkOf(one: Shown): string {
  if (one.kind !== 'command') return one.kind === 'build' ? linkTo.build(one.ref) : linkTo.server(one.ref)
  if ('href' in one.to) return one.to.href
  return 'build' in one.to ? linkTo.build(one.to.build) : linkTo.server(one.to.server)
}

function asNode(target: EventTarget | null): Node | null {
  return target instanceof Node ? target : null
}
