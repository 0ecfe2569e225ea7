/** Finds builds, servers, sessions and players from every view. */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { model } from '../data/live.js'
import { go, linkTo } from '../data/router.js'
import { type Found, search } from '../data/search.js'

export function SearchBox({ input }: { readonly input: RefObject<HTMLInputElement | null> }) {
  const text = useSignal('')
  const isOpen = useSignal(false)
  const chosen = useSignal(0)
  const found = isOpen.value ? search(model.value, text.value) : []
  const shown = isOpen.value && text.value.trim() !== ''
  const leave = () => {
    isOpen.value = false
    text.value = ''
    input.current?.blur()
  }
  const onKey = (event: KeyboardEvent) => {
    const one = found[chosen.value]
    if (event.key === 'ArrowDown') chosen.value = Math.min(chosen.value + 1, found.length - 1)
    else if (event.key === 'ArrowUp') chosen.value = Math.max(chosen.value - 1, 0)
    else if (event.key === 'Escape') leave()
    else if (event.key === 'Enter' && one) {
      go(linkOf(one))
      leave()
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
        placeholder="Find…  ( / )"
        aria-label="Find a build, server, session or player"
        role="combobox"
        aria-expanded={shown}
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
        onFocus={() => (isOpen.value = true)}
        onKeyDown={onKey}
      />
      {shown ? (
        <div class="found">
          <ul id="found" role="listbox" aria-label="Found">
            {found.map((one, index) => (
              <li
                key={`${one.kind} ${one.name} ${one.ref.name}`}
                id={`found-${index}`}
                role="option"
                aria-selected={index === chosen.value}
              >
                <a href={linkOf(one)} tabIndex={-1} onClick={leave} onMouseDown={(event) => event.preventDefault()}>
                  <span class="name">{one.name}</span> <span class="quiet">{one.note}</span>
                </a>
              </li>
            ))}
          </ul>
          {found.length === 0 ? <p class="quiet">Nothing has this in its name.</p> : null}
        </div>
      ) : null}
    </search>
  )
}

function linkOf({ kind, ref }: Found): string {
  return kind === 'build' ? linkTo.build(ref) : linkTo.server(ref)
}

function asNode(target: EventTarget | null): Node | null {
  return target instanceof Node ? target : null
}
