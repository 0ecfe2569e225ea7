/** Who plays, from a JSON document of the game. Pure. */
import type { PlayersReport } from '../game/probes.js'
import { isObject } from '../validation/problem.js'
import { playersReport } from './players-report.js'
import { type WrongAnswer, wrongAnswer } from './query-step.js'

/** `field`: names and indexes with dots between them, such as `players.online` or `servers.0.players`. It is a number, or a list. */
export function playersInJson(
  text: string,
  field: string,
): { readonly kind: 'done'; readonly result: PlayersReport } | WrongAnswer {
  const document = parsedJson(text)
  if (document === undefined) return wrongAnswer('is not JSON')
  const value = valueAt(document.value, field)
  if (Array.isArray(value)) return playersReport(value.length, listedNames(value))
  if (typeof value === 'number') return playersReport(value)
  return wrongAnswer(`has neither a number nor a list at ${field}`)
}

/** Undefined if the text is not JSON. */
export function parsedJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

function valueAt(document: unknown, field: string): unknown {
  let value = document
  for (const key of field.split('.')) {
    if (Array.isArray(value)) value = /^\d{1,9}$/.test(key) ? value[Number(key)] : undefined
    else if (isObject(value) && Object.hasOwn(value, key)) value = value[key]
    else return undefined
  }
  return value
}

/** Players are their names, or objects with a name or an id. */
function* listedNames(list: readonly unknown[]): Iterable<string> {
  for (const player of list) {
    const name = isObject(player) ? (player['name'] ?? player['id']) : player
    if (typeof name === 'string') yield name
    else if (typeof name === 'number') yield String(name)
  }
}
