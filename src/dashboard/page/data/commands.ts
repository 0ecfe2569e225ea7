/** What can be done from the box that finds: go to a view, scale or drain. Pure. */
import type { Ref } from '../../../rules/model/resources.js'
import type { Model } from './model.js'
import { isFoundBy, rowsOf } from './search.js'

export interface Command {
  readonly kind: 'command'
  readonly name: string
  readonly note: string
  readonly to: { readonly href: string } | { readonly build: Ref } | { readonly server: Ref }
  /** The button of that view whose dialog opens. */
  readonly action?: CommandedAction
}

export type CommandedAction = 'Scale' | 'Drain' | 'Resume' | 'Terminate'

/** A view by its name, with the letter that leads to it after `g`. */
export interface Place {
  readonly name: string
  readonly href: string
  readonly letter: string
}

const ofServers: readonly CommandedAction[] = ['Drain', 'Terminate']

/** Commands of which each word of the text begins a word, or is a part of the name. Without a text, all for views and builds. */
export function commandsFor(
  model: Model,
  text: string,
  places: readonly Place[],
  may: (action: CommandedAction, to: 'build' | 'server') => boolean,
  limit = 12,
): readonly Command[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean)
  const commands: Command[] = places.map(({ name, href, letter }) => ({
    kind: 'command',
    name: `Go to ${name}`,
    note: `g ${letter}`,
    to: { href },
  }))
  for (const { metadata, status } of model.builds.values()) {
    const isDraining = status.conditions?.some(({ type }) => type === 'Draining') ?? false
    for (const action of ['Scale', isDraining ? 'Resume' : 'Drain'] as const) {
      if (!may(action, 'build')) continue
      commands.push({
        kind: 'command',
        name: `${action} ${metadata.name}`,
        note: 'build',
        to: { build: metadata },
        action,
      })
    }
  }
  const fits = ({ name }: Command) => words.every((word) => name.toLowerCase().includes(word))
  return [...commands.filter(fits), ...serverCommands(model, words, may, limit)].slice(0, limit)
}

/** Only for who says what to do: a fleet has too many servers to list their commands. */
function serverCommands(
  model: Model,
  [verb = '', ...rest]: readonly string[],
  may: (action: CommandedAction, to: 'build' | 'server') => boolean,
  limit: number,
): readonly Command[] {
  const action = verb === '' ? undefined : ofServers.find((one) => one.toLowerCase().startsWith(verb))
  const wanted = rest.join(' ')
  if (action === undefined || wanted === '' || !may(action, 'server')) return []
  const commands: Command[] = []
  for (const row of rowsOf(model)) {
    if (commands.length === limit) break
    if (row.state === 'Terminating' || !isFoundBy(row, wanted)) continue
    const { namespace, name } = row
    const note = [row.place?.addresses[0], row.state].filter(Boolean).join(', ')
    commands.push({ kind: 'command', name: `${action} ${name}`, note, to: { server: { namespace, name } }, action })
  }
  return commands
}

/** Whether the text says what to do, rather than what to find. */
export function isCommand(text: string): boolean {
  return /^(go|scale|drain|resume|terminate)\b/i.test(text.trim())
}
