/** Validates requests to send a line to a game. Pure. */
import { stdinRequest } from '../schemas/stdin.js'
import { isObject } from './problem.js'
import { compile, type Validator } from './validator.js'

const check = compile(stdinRequest)

/** Returns the line without its line break. */
export const readStdin: Validator<{ readonly line: string }> = (value, root) => {
  if (!isObject(value) || typeof value['line'] !== 'string') return check(value, root)
  return check({ ...value, line: value['line'].replace(/\r?\n$/, '') }, root)
}
