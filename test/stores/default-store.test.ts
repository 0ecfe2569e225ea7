/** The store of a fleet for development starts empty, and deletes only what such a fleet has written. */
import { expect, it } from 'vitest'
import { silentLogger } from '../../src/contracts/logger.js'
import { openDefaultStore } from '../../src/stores/default-store.js'
import { fileStore } from '../../src/stores/file.js'
import { minimalServer } from '../../src/testing/records.js'
import { garble } from './damage.js'
import { temporaryDirectory } from './temporary.js'

const server = minimalServer({ namespace: 'default', name: 'arena-00001' })
const openEmptied = (directory: string) =>
  openDefaultStore({ kind: 'file', directory, startsEmpty: true }, silentLogger)

it('a start for development does not delete the records of another fleet', async () => {
  const directory = await temporaryDirectory()
  const store = await fileStore({ directory })
  await store.servers.create(server)
  await store.close()
  await expect(openEmptied(directory)).rejects.toMatchObject({ code: 'directory-unusable' })
  const reopened = await fileStore({ directory })
  expect(await reopened.servers.list()).toHaveLength(1)
  await reopened.close()
})

it('a start for development deletes the records of an earlier one, damaged ones as well', async () => {
  const directory = await temporaryDirectory()
  const first = await openEmptied(directory)
  await first.servers.create(server)
  await first.close()
  await garble(directory, 'uid-of-arena-00001')
  const second = await openEmptied(directory)
  expect(await second.servers.list()).toEqual([])
  await second.close()
})
