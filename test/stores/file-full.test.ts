import { expect, onTestFinished } from 'vitest'
import { nextMessage, startChild, testInNamespaces } from './child.js'
import { temporaryDirectory } from './temporary.js'

testInNamespaces('on a full disk, writes reject with unavailable, and reads and deletes work', async () => {
  const child = startChild('filler.ts', [await temporaryDirectory()], { diskMegabytes: 24 })
  onTestFinished(() => child.kill())

  const failed = await nextMessage(child)
  expect(failed).toEqual({
    written: expect.any(Number),
    code: 'unavailable',
    message: expect.stringMatching(
      /^writing default\/arena-\d+ to details failed: ENOSPC: no space left on device, only /,
    ),
    cause: true,
  })
  const { written } = Object(failed)
  expect(written).toBeGreaterThan(10)
  expect(await nextMessage(child)).toEqual({ codes: ['unavailable'] })
  expect(await nextMessage(child)).toEqual({ readable: written })
  expect(await nextMessage(child)).toEqual({ readable: written - 5 })
  expect(await nextMessage(child)).toEqual({ closed: true })
  expect(await nextMessage(child)).toEqual({ readable: written - 5 })
  expect(await nextMessage(child)).toEqual({ readable: written + 15 })
  await child.ended()
})
