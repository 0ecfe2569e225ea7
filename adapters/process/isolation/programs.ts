/** The helper programs that restrict a game. Looks for them in fixed directories. */
import { FleetError } from '../../../src/contracts/errors.js'
import { locateCommand } from '../run/command.js'

/** PATH of the helper programs, which run as this host: the game's own PATH could name other programs. */
export const systemPath = '/usr/sbin:/usr/bin:/sbin:/bin'

/** Returns the program's path. Throws `invalid` if it is missing, naming the option that needs it. */
export function helperProgram(name: string, option: string): string {
  const located = locateCommand(name, '/', systemPath)
  if (located.ok) return located.path
  throw cannot(option, `it needs the program ${name}`)
}

/** The error of an option that this machine cannot provide. */
export function cannot(option: string, why: string): FleetError {
  return new FleetError('invalid', `processBackend: ${option} cannot be used here: ${why}`)
}
