/** The lines of a game's output, whatever the chunks are in which it arrives, and the cost of lines that never end. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it, vi } from 'vitest'
import { type LinePiece, LineSplitter, maxLineBytes } from '../../../adapters/shared/line-splitter.js'
import { secretMask } from '../../../src/rules/model/names.js'

function piecesOf(chunks: Iterable<Buffer>): readonly LinePiece[] {
  const splitter = new LineSplitter()
  const pieces: LinePiece[] = []
  for (const chunk of chunks) pieces.push(...splitter.push(chunk))
  return [...pieces, ...splitter.rest()]
}

const textsOf = (...chunks: readonly (string | Buffer)[]) =>
  piecesOf(chunks.map((chunk) => Buffer.from(chunk as string))).map(({ text }) => text)

function* inChunks(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

describe('output is divided into lines', () => {
  test.prop([
    fc.array(fc.string({ unit: fc.constantFrom('a', 'ü', '🎮', ' ', '\n') })),
    fc.integer({ min: 1, max: 9 }),
  ])('however it is divided into chunks', (texts, size) => {
    const text = texts.join('')
    const expected = text.split('\n')
    if (expected.at(-1) === '') expected.pop()
    expect(piecesOf(inChunks(Buffer.from(text), size)).map((piece) => piece.text)).toEqual(expected)
  })

  it('without the carriage return before a newline', () => {
    expect(textsOf('a\r', '\nb\rc\r\n', '\r\n', 'd\r')).toEqual(['a', 'b\rc', '', 'd\r'])
  })

  it('and only the last line may have no newline', () => {
    expect(piecesOf([Buffer.from('a\nb')])).toEqual([
      { text: 'a', startsLine: true, endsLine: true },
      { text: 'b', startsLine: true, endsLine: false },
    ])
  })
})

describe('a line that is too long', () => {
  const long = (length: number) => Buffer.alloc(length, 'word ')

  it('is divided into pieces, of which only the first starts and only the last ends a line', () => {
    const pieces = piecesOf([long(3 * maxLineBytes), Buffer.from('\nnext\n')])
    expect(pieces.map(({ startsLine, endsLine }) => [startsLine, endsLine])).toEqual([
      [true, false],
      ...pieces.slice(3).map(() => [false, false]),
      [false, true],
      [true, true],
    ])
    expect(pieces.map(({ text }) => text).join('')).toBe(`${long(3 * maxLineBytes).toString()}next`)
  })

  it.each([0, 1, 2])('is whole at the limit of length, and divided above it (%i bytes more)', (more) => {
    const text = 'x'.repeat(maxLineBytes + more)
    for (const size of [maxLineBytes, 65_536, 1_000_003]) {
      const pieces = piecesOf(inChunks(Buffer.from(`${text}\n`), size))
      expect(pieces).toHaveLength(more === 0 ? 1 : 2)
      expect(pieces.map((piece) => piece.text).join('')).toBe(text)
    }
  })

  it('is divided at the same places however it is divided into chunks', () => {
    const text = Buffer.from(`${long(2 * maxLineBytes + 77).toString()}\n`)
    const whole = piecesOf([text])
    for (const size of [999, 4_096, 300_007]) expect(piecesOf(inChunks(text, size))).toEqual(whole)
  })

  it.each(['ü', '€', '🎮'])('is never divided within a character: %s', (character) => {
    for (let before = 0; before < 4; before++) {
      const text = 'x'.repeat(before) + character.repeat(maxLineBytes / 2 + 1)
      const pieces = textsOf(text)
      expect(pieces.length).toBeGreaterThan(1)
      expect(pieces.join('')).toBe(text)
    }
  })

  it('that is not UTF-8 is divided too', () => {
    expect(piecesOf([Buffer.alloc(2 * maxLineBytes, 0x80)])).toHaveLength(2)
  })

  it.each([undefined, '0a'.repeat(16)])(
    'is never divided within a secret, so that it can be masked (token: %s)',
    (known) => {
      const token = '0a'.repeat(16)
      const id = `arena-x7k2p.${token}`
      const mask = secretMask('arena-x7k2p', known)
      for (let end = -2; end <= id.length + 2; end++) {
        const text = Buffer.from(`${' '.repeat(maxLineBytes - end)}${id} tail`)
        const masked = piecesOf([text]).map((piece) => mask(piece.text))
        expect(masked.join('').trim(), `${end} bytes before the limit`).toBe('arena-x7k2p.*** tail')
      }
    },
  )

  it('is read in linear time: a line of 64 MB touches each byte a few times', () => {
    let touched = 0
    const touch = (buffer: Buffer, from: unknown, to?: unknown) => {
      touched += Number(to ?? buffer.length) - Number(from ?? 0)
    }
    const { copy, copyWithin, indexOf, toString } = Buffer.prototype
    vi.spyOn(Buffer.prototype, 'copy').mockImplementation(function (this: Buffer, target, at, from, to) {
      touch(this, from, to)
      return copy.call(this, target, at, from, to)
    })
    vi.spyOn(Buffer.prototype, 'copyWithin').mockImplementation(function (this: Buffer, target, from, to) {
      touch(this, from, to)
      return copyWithin.call(this, target, from, to)
    })
    vi.spyOn(Buffer.prototype, 'indexOf').mockImplementation(function (this: Buffer, value, from) {
      touch(this, from)
      return indexOf.call(this, value, from)
    })
    vi.spyOn(Buffer.prototype, 'toString').mockImplementation(function (this: Buffer, encoding, from, to) {
      touch(this, from, to)
      return toString.call(this, encoding, from, to)
    })
    const bytes = 64 * 1024 * 1024
    const chunk = Buffer.alloc(64 * 1024, 'word ')
    const splitter = new LineSplitter()
    let length = 0
    for (let read = 0; read < bytes; read += chunk.length) {
      for (const { text } of splitter.push(chunk)) length += text.length
    }
    for (const { text } of splitter.rest()) length += text.length
    vi.restoreAllMocks()
    expect(length).toBe(bytes)
    expect(touched).toBeGreaterThan(2 * bytes)
    expect(touched).toBeLessThan(4 * bytes)
  })
})
