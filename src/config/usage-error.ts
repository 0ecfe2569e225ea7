/** A mistake in the configuration or on the command line. Its message names what to change, and is printed without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A mistake in what was typed, not in what was configured. */
export class CommandLineError extends UsageError {}
