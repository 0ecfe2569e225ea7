/** The shape of pino's logger, so that a host hands over its own. Silent unless given. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const nothing = () => {}

export const silentLogger: Logger = Object.freeze({ debug: nothing, info: nothing, warn: nothing, error: nothing })
