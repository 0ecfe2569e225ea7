/**
 * Logger: the subset of pino's interface that gamekeeper uses, so that a host app can pass its pino logger. Messages are
 * constant; variable data goes into `fields`. An error is always passed as the error object itself, under the key `err`.
 */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = () => {}

export const silentLogger: Logger = Object.freeze({ debug: ignore, info: ignore, warn: ignore, error: ignore })
