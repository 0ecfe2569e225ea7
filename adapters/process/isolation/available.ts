/** Which isolations this machine can provide. Tries each of them. */
import { messageOf } from '../../../src/contracts/errors.js'
import type { isolations } from '../options.js'
import { resolveProcessOptions } from '../options.js'
import { GameIsolation } from './game-isolation.js'

/**
 * For each `isolation` of `processBackend`, why this machine cannot provide it to this host; undefined if it can. Takes some
 * hundred milliseconds, because it runs a command in each.
 */
export function isolationsHere(): Readonly<Record<(typeof isolations)[number], string | undefined>> {
  return { none: undefined, user: whyNot('user'), systemd: whyNot('systemd') }
}

function whyNot(isolation: (typeof isolations)[number]): string | undefined {
  try {
    provide(isolation)
    return undefined
  } catch (error) {
    return messageOf(error).replace(/^.* cannot be used here: /, '')
  }
}

function provide(isolation: (typeof isolations)[number]): GameIsolation {
  return new GameIsolation(resolveProcessOptions({ isolation }))
}
