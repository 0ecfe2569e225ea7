/** Where commands that only read find a fleet: at a running server, or in DATA_DIR when no host runs on it. */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { FleetClient } from '../../client/index.js'
import { UsageError } from '../../config/usage-error.js'
import type { Resolved } from '../../config/resolve.js'
import { settings } from '../../config/variables.js'
import { FleetError } from '../../index.js'
import { messageOf } from '../../contracts/errors.js'
import {
  addClientOptions,
  type ClientFlags,
  clientSettingsOf,
  namesIn,
  ownUrl,
  type Target,
  targetIn,
} from '../client.js'
import type { Terminal } from '../terminal.js'
import { type ReadableFleet, storedFleet } from './stored-fleet.js'

export interface SourceFlags extends ClientFlags {
  readonly dataDir?: string
  readonly url?: string
}

export interface Source extends Pick<Target, 'ref'> {
  readonly fleet: ReadableFleet
  /** The same, at a running server. */
  readonly client?: FleetClient
  /** One of the two. */
  readonly where: { readonly url?: string; readonly dataDir?: string }
}

export function addSourceOptions(command: Command): Command {
  const meaning = 'Read what is stored there, when no host runs on it. DATA_DIR without a URL does so, too.'
  return addClientOptions(command.option('--data-dir <directory>', meaning))
}

/** Throws UsageError, `not-found` without a store, `directory-in-use` while a host runs on it, or `directory-unusable`. */
export async function sourceOf(terminal: Terminal, flags: SourceFlags): Promise<Source> {
  const { dataDir, url } = flags
  if (dataDir !== undefined && url !== undefined)
    throw new UsageError(
      '--url and --data-dir are two places: name the server, or the directory when no host runs on it',
    )
  const resolved = await clientSettingsOf(terminal, flags, { DATA_DIR: dataDir })
  if (dataDir === undefined && !mayBeStored(resolved.env)) return atServer(resolved)
  const directory = resolve(terminal.cwd, resolved.env['DATA_DIR'] ?? settings.DATA_DIR.fallback)
  try {
    const fleet = await storedFleet(directory, resolved.env['API_GROUP'] ?? settings.API_GROUP.fallback)
    return { fleet, where: { dataDir: directory }, ...namesIn(resolved.env) }
  } catch (error) {
    const isInUse = FleetError.is(error, 'directory-in-use')
    if (dataDir === undefined && (isInUse || FleetError.is(error, 'not-found'))) return atServer(resolved)
    if (!isInUse) throw error
    const how = `its host answers through its API: leave out --data-dir, and set --url if it is not ${ownUrl(resolved.env)}`
    throw new FleetError('directory-in-use', `${messageOf(error)}; ${how}`, { cause: error })
  }
}

export function needsHost(flag: string, { dataDir }: SourceFlags): UsageError {
  const where = dataDir ?? 'DATA_DIR'
  return new UsageError(`${flag} needs a running host, but none runs on ${where}`)
}

/** Whether the settings name a directory and no server. */
function mayBeStored(env: Resolved['env']): boolean {
  const { GAMEKEEPER_URL: url, DATA_DIR: dataDir, BACKEND: backend } = env
  return url === undefined && dataDir !== undefined && backend !== 'kubernetes' && backend !== 'memory'
}

function atServer(resolved: Resolved): Source {
  const { client, managementUrl, ref } = targetIn(resolved)
  return { fleet: client, client, where: { url: managementUrl }, ref }
}
