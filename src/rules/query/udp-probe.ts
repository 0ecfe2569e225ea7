/** A datagram of the build's author, and what begins its answer. Pure. */
import { bytesOfHex } from './byte-reader.js'
import { type QueryStep, wrongAnswer } from './query-step.js'

/** `send` and `expect` are hexadecimal. Without `expect`, any answer passes. Undefined if one of them is not hexadecimal. */
export function udpProbe(send: string, expect = ''): QueryStep<void> | undefined {
  const request = bytesOfHex(send)
  const expected = bytesOfHex(expect)
  if (request === undefined || expected === undefined) return undefined
  return {
    request,
    read: (datagram) =>
      datagram.byteLength >= expected.byteLength && expected.every((byte, i) => datagram[i] === byte)
        ? { kind: 'done', result: undefined }
        : wrongAnswer('does not begin as expected'),
  }
}
