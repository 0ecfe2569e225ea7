/** What is believed of a game that says who plays. Its players choose their names, so these are hostile input. Pure. */
import type { PlayersReport } from '../game/probes.js'
import { cutText, sizeLimits } from '../model/sizes.js'
import { type WrongAnswer, wrongAnswer } from './query-step.js'

/** Of one report. A game that claims more players than this is not believed at all. */
export const maxReportedPlayers = 10_000
const maxNames = 1_000
const maxNameLength = 128

/** Control characters, line separators, lone surrogates, and what reverses the direction of a text. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu

/**
 * `count` is refused unless it is a whole number from 0 to 10,000. Of the names: at most `count`, each once, without control characters,
 * cut to 128 characters and to the size of a player's id; empty ones are left out.
 */
export function playersReport(
  count: unknown,
  names: Iterable<string> = [],
): { readonly kind: 'done'; readonly result: PlayersReport } | WrongAnswer {
  if (typeof count !== 'number' || !Number.isInteger(count) || count < 0 || count > maxReportedPlayers)
    return wrongAnswer(`has no number of players from 0 to ${maxReportedPlayers}`)
  return { kind: 'done', result: { count, names: printableNames(names, Math.min(count, maxNames)) } }
}

function printableNames(names: Iterable<string>, max: number): readonly string[] {
  const kept = new Set<string>()
  for (const name of names) {
    if (kept.size === max) break
    const shown = printableName(name)
    if (shown !== '') kept.add(shown)
  }
  return [...kept]
}

function printableName(name: string): string {
  // First roughly, so that a long text costs little. A character is at most two code units; half as many may be dropped.
  const printable = name
    .slice(0, 4 * maxNameLength)
    .replace(unprintable, '')
    .trim()
  const cut = printable.length > maxNameLength ? Array.from(printable).slice(0, maxNameLength).join('') : printable
  return cutText(cut, sizeLimits.playerIDBytes)
}

/** The number that a text of digits stands for. Undefined for any other text. */
export function countOfDigits(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined
}
