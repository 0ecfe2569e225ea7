/** The settings of a command: its flags, the environment and the configuration file. */
import { resolveSettings, type Resolved } from '../config/resolve.js'
import { takeSecrets } from '../server/secrets.js'
import { loadConfig } from './config-file.js'
import type { Terminal } from './terminal.js'

/** Flags by the names of their variables. */
export type Flags = Readonly<Record<string, string | undefined>>

export interface ConfigOption {
  readonly config?: string
}

export const configOption = [
  '--config <file>',
  'Configuration file. Default: gamekeeper.config.ts, .mjs or .json in the current directory.',
] as const

/** Secrets are removed from the environment of this process. Throws UsageError. */
export async function settingsOf(terminal: Terminal, { config }: ConfigOption, flags: Flags): Promise<Resolved> {
  const env = takeSecrets(terminal.env)
  return resolveSettings({ flags, env, file: await loadConfig(config, terminal.cwd) })
}
