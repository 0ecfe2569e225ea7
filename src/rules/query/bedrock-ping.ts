/**
 * The unconnected ping of Minecraft Bedrock, over UDP, in big-endian order. Source: minecraft.wiki, Bedrock_Edition_protocol/RakNet.
 *
 * Request: 01, time as i64, magic, the sender's id as u64. Answer: 1c, the same time, the server's id, magic, length as u16, and a text:
 * `edition;name;protocol;version;players;maximum;…`. It names no players. Pure.
 */
import type { PlayersReport } from '../game/probes.js'
import { ByteReader, isSameBytes, textOfBytes } from './byte-reader.js'
import { playersReport, countOfDigits } from './players-report.js'
import { type QueryStep, wrongAnswer } from './query-step.js'

/** The same in all packets of RakNet, so that others are not taken for them. */
const magic = Uint8Array.of(0, 0xff, 0xff, 0, 0xfe, 0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd, 0xfd, 0x12, 0x34, 0x56, 0x78)
const notBedrock = wrongAnswer('is not a pong of Minecraft Bedrock')

/** `nonce`: 8 random bytes, which take the place of the time, so that only an answer to this request passes for one. */
export function bedrockQuery(nonce: Uint8Array): QueryStep<PlayersReport> {
  const time = nonce.slice(0, 8)
  const request = new Uint8Array(33)
  request[0] = 0x01
  request.set(time, 1)
  request.set(magic, 9)
  return {
    request,
    read(datagram) {
      const reader = new ByteReader(datagram, 'big-endian')
      const type = reader.u8()
      const repeated = reader.bytes(8)
      reader.bytes(8)
      const marked = reader.bytes(16)
      const text = textOfBytes(reader.bytes(reader.u16()))
      if (type !== 0x1c || (!reader.isTruncated && !isSameBytes(marked, magic))) return notBedrock
      if (reader.isTruncated) return wrongAnswer('is truncated')
      if (!isSameBytes(repeated, time)) return { kind: 'stale' }
      // A name may contain a semicolon after a backslash.
      return playersReport(countOfDigits(text.split(/(?<!\\);/, 5)[4]))
    },
  }
}
