import { expect, test } from 'vitest'
import { encode, sealBytes, sealRecord } from '../../src/stores/integrity.js'

const texts = [
  '{}',
  '{"name":"arena-1"}',
  '{"name":"Übergröße 🎲 \\ud800"}',
  `{"name":"${'é'.repeat(9_000)}"}`,
  `"${'x'.repeat(400_000)}"`,
]

test('sealed bytes are the sealed text, for short and long records in every alphabet', () => {
  for (const [i, text] of texts.entries()) {
    for (const version of [1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
      const bytes = encode(text)
      sealBytes(`default/arena-${i}`, version, bytes)
      expect(Buffer.from(bytes).toString()).toBe(sealRecord(`default/arena-${i}`, version, text))
    }
  }
})

test('bytes that wait are not changed by those that are encoded after them', () => {
  const waiting = Array.from({ length: 3_000 }, (_, i) => ({
    text: `{"name":"${'x'.repeat(i % 500)}-${i}"}`,
    version: i,
  }))
  const encoded = waiting.map(({ text }) => encode(text))
  for (const [i, { version }] of waiting.entries()) sealBytes('default/arena-1', version, encoded[i] ?? encode(''))
  for (const [i, { text, version }] of waiting.entries()) {
    expect(Buffer.from(encoded[i] ?? encode('')).toString()).toBe(sealRecord('default/arena-1', version, text))
  }
})
