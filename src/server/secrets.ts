/**
 * Secrets of the server: taken from variables, or from files that `<variable>_FILE` names. Tokens in files are read again when
 * the files change. May touch the environment, files and real time.
 */
import { readFileSync, statSync } from 'node:fs'
import { UsageError } from '../config/usage-error.js'
import { secretVariables } from '../config/variables.js'
import { type Authorize, type BearerToken, bearerTokens } from '../http/index.js'
import { isError } from '../rules/model/values.js'
import type { ServerLog } from './log.js'
import { readTokens } from './settings.js'

export type ServerEnvironment = Readonly<Record<string, string | undefined>>

/**
 * Removes the secrets from the environment of this process, and returns a copy that contains them, so that no code and no
 * child process finds them there. The kernel still shows the initial environment to processes of the same user.
 */
export function takeSecrets(env: Record<string, string | undefined>): ServerEnvironment {
  const copy = { ...env }
  for (const name of secretVariables) delete env[name]
  return copy
}

/** Reads the files that `<variable>_FILE` names. Throws UsageError, naming the variable. */
export function withSecretFiles(env: ServerEnvironment): ServerEnvironment {
  const result: Record<string, string | undefined> = { ...env }
  for (const name of secretVariables) {
    const path = env[`${name}_FILE`]
    if (path === undefined) continue
    if (env[name] !== undefined) throw new UsageError(`${name} and ${name}_FILE must not both be set`)
    result[name] = contentOf(`${name}_FILE`, path)
  }
  return result
}

/** Tokens may be on lines of their own. The message does not contain the content. */
function contentOf(variable: string, path: string): string {
  let text: string
  try {
    // Reading a pipe could wait for ever.
    if (!statSync(path).isFile()) throw new Error('it is not a regular file')
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const reason = isError(error) ? error.message : String(error)
    throw new UsageError(`${variable} names ${JSON.stringify(path)}, which cannot be read: ${reason}`, { cause: error })
  }
  const lines = text.split('\n').map((line) => line.trim())
  const content = lines.filter((line) => line !== '').join(',')
  if (content === '') throw new UsageError(`${variable} names ${JSON.stringify(path)}, which is empty`)
  return content
}

/** How often the files are read. */
const checkMs = 1_000

/**
 * Accepts the tokens of the environment, and changes of those in files. If files become unusable, logs an error and keeps
 * accepting the tokens read last. Undefined if there are no tokens.
 */
export function tokenAuthorization(
  env: ServerEnvironment,
  log: ServerLog,
  onChange: (tokens: readonly BearerToken[]) => void,
): Authorize | undefined {
  let tokens = tokensIn(env)
  if (tokens.length === 0) return undefined
  let authorize = bearerTokens(tokens)
  let lastFailure = ''
  const check = () => {
    try {
      const next = tokensIn(env)
      if (JSON.stringify(next) === JSON.stringify(tokens)) return
      authorize = bearerTokens(next)
      tokens = next
      onChange(next)
      lastFailure = ''
      log.info({ tokens: next.length }, 'reloaded changed tokens')
    } catch (error) {
      const failure = isError(error) ? error.message : String(error)
      if (failure !== lastFailure) log.error({ err: error }, 'changed tokens are unusable; keeping the current ones')
      lastFailure = failure
    }
  }
  if (secretVariables.some((name) => env[`${name}_FILE`] !== undefined)) setInterval(check, checkMs).unref()
  return (request, operation) => authorize(request, operation)
}

function tokensIn(env: ServerEnvironment): readonly BearerToken[] {
  const withFiles = withSecretFiles(env)
  return readTokens((name) => withFiles[name])
}
