/** What `gamekeeper dev` prints: lines for people, or JSON lines. */
import { oneLine } from '../../server/log.js'
import type { Colour, Terminal } from '../terminal.js'

export interface DevelopmentOutput {
  /** Something that the fleet did. `fields` are only in the JSON line. */
  say(type: string, text: string, fields?: object): void
  warn(type: string, text: string, fields?: object): void
  /** One line that a game printed. */
  game(server: string, line: string): void
}

const colours: readonly Colour[] = ['cyan', 'magenta', 'blue', 'green', 'yellow']

export function developmentOutput(terminal: Terminal, json: boolean): DevelopmentOutput {
  if (json) {
    const print = (line: object) => terminal.print(JSON.stringify(line))
    return {
      say: (type, message, fields) => print({ type, message, ...fields }),
      warn: (type, message, fields) => print({ type, message, ...fields }),
      game: (server, line) => print({ type: 'output', server, line }),
    }
  }
  const seen = new Map<string, Colour>()
  const colourOf = (server: string): Colour => {
    const known = seen.get(server) ?? colours[seen.size % colours.length] ?? 'cyan'
    seen.set(server, known)
    return known
  }
  return {
    say: (_, text) => terminal.print(text),
    warn: (_, text) => terminal.print(terminal.paint('yellow', `! ${oneLine(text)}`)),
    game: (server, line) => terminal.print(`${terminal.paint(colourOf(server), `[${server}]`)} ${line}`),
  }
}
