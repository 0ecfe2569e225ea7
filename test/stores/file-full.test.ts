import { expect, onTestFinished, test } from 'vitest'
import { fileStore } from '../../src/stores/file.js'
import { minimalDetail } from '../../src/testing/records.js'
import { nextMessage, startChild } from './child.js'
import { temporaryDirectory } from './temporary.js'

test('on a full disk, writes reject with unavailable, and reads and deletes work', async () => {
  const directory = await temporaryDirectory()
  // A limit on the file size fails like a full disk.
  const child = startChild('filler.ts', [directory], { limit: '-f 4096' })
  onTestFinished(() => child.kill())

  const failed = await nextMessage(child)
  expect(failed).toEqual({
    written: expect.any(Number),
    code: 'unavailable',
    message: expect.stringMatching(/^writing default\/arena-\d+ to details failed: E[A-Z]+: /),
    cause: true,
  })
  const { written } = Object(failed)
  expect(written).toBeGreaterThan(10)
  expect(await nextMessage(child)).toEqual({ codes: ['unavailable'] })
  expect(await nextMessage(child)).toEqual({ readable: written })
  expect(await nextMessage(child)).toEqual({ readable: written - 5 })
  expect(await nextMessage(child)).toEqual({ closed: true })
  await child.ended()

  const store = await fileStore({ directory })
  expect(await store.details.list()).toHaveLength(written - 5)
  for (let n = 0; n < 20; n++) {
    const ref = { namespace: 'default', name: `later-${n}` }
    await store.details.create({ ...minimalDetail(ref), players: ['x'.repeat(100_000)] })
  }
  expect(await store.details.list()).toHaveLength(written + 15)
  await store.close()
})
