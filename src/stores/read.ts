/**
 * Reads a file store without opening it, for tools: takes no lock and changes nothing, not even the files that lmdb keeps beside its
 * data. Touches the directory and a copy of its data.
 */
import { constants, existsSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { FleetError } from '../contracts/errors.js'
import { aString, checkOptions, required } from '../contracts/option-checks.js'
import type { DemandRecord } from '../rules/demand/demand-day.js'
import type { Build, Detail, Server } from '../rules/model/resources.js'
import { checkUnclaimed, throwIfHeld } from './directory-lock.js'
import { checkFile, checkFiles, directoryUnusable } from './directory.js'
import {
  type CollectionName,
  type Collections,
  loadLmdb,
  openCollections,
  openEnvironment,
  storeDamaged,
} from './lmdb-environment.js'
import { checkInChild } from './child-check.js'
import { check, jsonOf, NewestVersion, openContents } from './integrity.js'

export interface StoreContents {
  readonly builds: readonly Build[]
  readonly servers: readonly Server[]
  readonly details: readonly Detail[]
  readonly demand: readonly DemandRecord[]
}

const copied = ['data.mdb', 'newest-version']

/**
 * Returns all records. Rejects with `not-found` if the directory has no store, `directory-in-use` if a live process has it open, and
 * `directory-unusable`, naming what is damaged, if a record cannot be read or is missing.
 */
export async function readFileStore(options: { readonly directory: string }): Promise<StoreContents> {
  checkOptions('readFileStore', options, { directory: required(aString) })
  const directory = resolve(options.directory)
  if (!existsSync(join(directory, 'data.mdb'))) throw new FleetError('not-found', `there is no store in ${directory}`)
  await throwIfHeld(directory)
  // Records contain secrets: only this user may enter the directory.
  const copy = await mkdtemp(join(tmpdir(), 'gamekeeper-store-'))
  try {
    for (const name of copied) {
      await checkFile(join(directory, name))
      if (existsSync(join(directory, name)))
        await copyFile(join(directory, name), join(copy, name), constants.COPYFILE_FICLONE)
    }
    // A host that has started meanwhile may have written during the copy.
    await throwIfHeld(directory)
    return await readCopy(copy, directory)
  } catch (error) {
    throw FleetError.is(error) ? error : directoryUnusable(directory, error)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

async function readCopy(copy: string, directory: string): Promise<StoreContents> {
  await checkFiles(copy)
  await checkInChild(copy, undefined, directory)
  const newestVersion = new NewestVersion(copy)
  const environment = openEnvironment(loadLmdb(), copy)
  try {
    await checkUnclaimed(environment, directory)
    const collections = openCollections(environment)
    // A host that was killed while it created the store may have written none. This writes to the copy.
    openContents(environment, collections)
    const found = await check({ ...environment, collections }, newestVersion.found)
    if (!found.isWhole) throw storeDamaged(directory, found)
    const builds: readonly Build[] = JSON.parse(jsonOfAll(collections.builds))
    const servers: readonly Server[] = JSON.parse(jsonOfAll(collections.servers))
    const details: readonly Detail[] = JSON.parse(jsonOfAll(collections.details))
    const demand: readonly DemandRecord[] = JSON.parse(jsonOfAll(collections.demand))
    return { builds, servers, details, demand }
  } finally {
    newestVersion.close()
    await environment.root.close()
  }
}

function jsonOfAll(records: Collections[CollectionName]): string {
  const texts: string[] = []
  for (const { key, value, version = 0 } of records.getRange({ versions: true })) {
    texts.push(jsonOf(key, version, value))
  }
  return `[${texts.join()}]`
}
