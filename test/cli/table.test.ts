/** Tables of the command line. */
import { describe, expect, it } from 'vitest'
import { type Column, tableLines } from '../../src/cli/table.js'

const columns: readonly Column[] = [
  { head: 'NAME' },
  { head: 'STATE', cut: 'fixed', colourOf: (cell) => (cell === 'Active' ? 'cyan' : undefined) },
  { head: 'SESSION', cut: 'id' },
  { head: 'MESSAGE', cut: 'text' },
]
const session = 'b3a1c8d2-0000-4000-8000-000000000009'
const paint = (_: string, text: string) => text
const of = (rows: readonly (readonly string[])[], width?: number) => {
  const { head, lines } = tableLines(columns, rows, { width, paint })
  return [head, ...lines]
}

describe('a table', () => {
  it('is whole where a program reads it, with a dash for what is empty', () => {
    expect(of([['arena-1', 'Active', session, '']])).toEqual([
      'NAME     STATE   SESSION                               MESSAGE',
      `arena-1  Active  ${session}  -`,
    ])
  })

  it('leaves out empty columns on a terminal', () => {
    expect(of([['arena-1', 'StandingBy', '', '']], 80)).toEqual(['NAME     STATE', 'arena-1  StandingBy'])
  })

  it('cuts ids first, then texts, then the widest, and never what is fixed', () => {
    const message = 'the node was drained by an operator, and the match goes on'
    const row = ['arena-1', 'Active', session, message]
    expect(of([row], 100)[1]).toBe(`arena-1  Active  ${session.slice(0, 22)}…  ${message}`)
    expect(of([row], 70)[1]).toBe('arena-1  Active  b3a1c8d2…  the node was drained by an operator, and …')
    expect(of([row], 48)[1]).toBe('arena-1  Active  b3a1c8d2…  the node was draine…')
    expect(of([['x'.repeat(40), 'Initializing', '', '']], 30)[1]).toBe(`${'x'.repeat(15)}…  Initializing`)
    for (const width of [40, 60, 80, 100, 120])
      expect(of([row], width).every((line) => line.length <= width)).toBe(true)
  })

  it('keeps rows that are printed later below its columns', () => {
    const widths: number[] = []
    const first = tableLines(columns, [['arena-12345', 'Active', session, 'x']], { paint, widths })
    const [later = ''] = tableLines(columns, [['a', 'Active', 's', 'y']], { paint, widths }).lines
    expect(later.indexOf('y')).toBe(first.lines[0]?.indexOf('x'))
  })

  it('paints a cell without its blanks', () => {
    const painted = tableLines(columns, [['arena-1', 'Active', '', '']], {
      width: 80,
      paint: (colour, text) => `<${colour}>${text}</>`,
    })
    expect(painted.lines).toEqual(['arena-1  <cyan>Active</>'])
  })
})
