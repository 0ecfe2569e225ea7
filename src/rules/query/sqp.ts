/**
 * SQP, the queries of Unity's game server hosting, over UDP, in big-endian order. Source: github.com/multiplay/go-svrquery.
 *
 * Request: 00 and a challenge of 0; the answer, 00, gives the challenge. Then 01, challenge, version 1 as u16, and which chunks are wanted.
 * Answer: 01, challenge, version, number of this packet, of the last one, length as u16, and the chunks. That with the server's info
 * begins with its length as u32, the number of players and their maximum as u16. It names no players. Pure.
 */
import type { PlayersReport } from '../game/probes.js'
import { ByteReader } from './byte-reader.js'
import { playersReport } from './players-report.js'
import { type QueryStep, wrongAnswer } from './query-step.js'

const version = 1
const infoChunk = 1
const truncated = wrongAnswer('is truncated')
const notSqp = wrongAnswer('is not SQP')

export function sqpQuery(): QueryStep<PlayersReport> {
  return {
    request: Uint8Array.of(0, 0, 0, 0, 0),
    read(datagram) {
      const reader = new ByteReader(datagram, 'big-endian')
      const type = reader.u8()
      const challenge = reader.u32()
      // The answer to an earlier query.
      if (type === 1) return { kind: 'stale' }
      if (type !== 0) return notSqp
      return reader.isTruncated ? truncated : { kind: 'next', step: infoStep(challenge) }
    },
  }
}

function infoStep(challenge: number): QueryStep<PlayersReport> {
  const request = new Uint8Array(8)
  const view = new DataView(request.buffer)
  view.setUint8(0, 1)
  view.setUint32(1, challenge)
  view.setUint16(5, version)
  view.setUint8(7, infoChunk)
  return {
    request,
    read(datagram) {
      const reader = new ByteReader(datagram, 'big-endian')
      const type = reader.u8()
      // The request for the challenge was answered twice.
      if (type === 0) return { kind: 'stale' }
      if (type !== 1) return notSqp
      const repeated = reader.u32()
      reader.u16()
      const packet = reader.u8()
      reader.u8()
      const length = reader.u16()
      if (reader.isTruncated) return truncated
      if (repeated !== challenge || packet !== 0) return { kind: 'stale' }
      const chunks = new ByteReader(reader.bytes(length), 'big-endian')
      const chunkLength = chunks.u32()
      const players = chunks.u16()
      return chunks.isTruncated || chunkLength < 2 ? truncated : playersReport(players)
    },
  }
}
