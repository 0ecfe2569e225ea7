/** The set in order of arrival under the inventory and the waiting room. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { LinkedSet } from '../../src/engine/linked-set.js'

interface Member {
  readonly id: number
}

const members: readonly Member[] = Array.from({ length: 6 }, (_, id) => ({ id }))

function filled(): LinkedSet<Member> {
  const set = new LinkedSet<Member>()
  for (const member of members) set.add(member)
  return set
}

const ids = (set: Iterable<Member>) => Array.from(set, ({ id }) => id)

/** Reads the set and does something with each member as it comes. */
function read(set: LinkedSet<Member>, meanwhile: (member: Member) => void): readonly number[] {
  const seen: number[] = []
  for (const member of set) {
    seen.push(member.id)
    meanwhile(member)
  }
  return seen
}

describe('a linked set', () => {
  it('is in order of arrival, and its first is the one that has been there for longest', () => {
    const set = filled()
    expect([ids(set), set.first?.id, set.size]).toEqual([[0, 1, 2, 3, 4, 5], 0, 6])
  })

  it('keeps the place of a member that is added again', () => {
    const set = filled()
    for (const member of members) set.add(member)
    expect(ids(set)).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('moves a member to the end, wherever it stood', () => {
    for (const member of members) {
      const set = filled()
      set.moveToEnd(member)
      expect(ids(set)).toEqual([...[0, 1, 2, 3, 4, 5].filter((id) => id !== member.id), member.id])
    }
  })

  it('moves nobody who is not a member', () => {
    const set = filled()
    set.moveToEnd({ id: 9 })
    expect(ids(set)).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('can lose each member as it is read', () => {
    const set = filled()
    expect(read(set, (member) => set.delete(member))).toEqual([0, 1, 2, 3, 4, 5])
    expect([set.size, set.first]).toEqual([0, undefined])
  })

  it('can lose the members before the one that is read', () => {
    const set = filled()
    const all = [...members]
    expect(read(set, ({ id }) => all.slice(0, id).forEach((member) => set.delete(member)))).toEqual([0, 1, 2, 3, 4, 5])
    expect(ids(set)).toEqual([5])
  })

  it('reads what is added while it is read', () => {
    const set = new LinkedSet<Member>()
    const late = { id: 7 }
    set.add({ id: 0 })
    expect(read(set, () => set.add(late))).toEqual([0, 7])
  })

  it('is empty after it was cleared, and can be filled again', () => {
    const set = filled()
    set.clear()
    expect([ids(set), set.size, set.first]).toEqual([[], 0, undefined])
    set.add({ id: 3 })
    expect(ids(set)).toEqual([3])
  })

  const step = fc.tuple(fc.constantFrom('add', 'delete', 'moveToEnd', 'clear'), fc.nat(5))
  test.prop([fc.array(step, { maxLength: 60 })])('equals a plain list after anything that is done to it', (steps) => {
    const set = new LinkedSet<Member>()
    let list: Member[] = []
    for (const [what, index] of steps) {
      const member = members[index]
      if (!member) continue
      const others = list.filter((other) => other !== member)
      const had = list.includes(member)
      switch (what) {
        case 'add':
          set.add(member)
          if (!had) list.push(member)
          break
        case 'delete':
          expect(set.delete(member)).toBe(had)
          list = others
          break
        case 'moveToEnd':
          set.moveToEnd(member)
          if (had) list = [...others, member]
          break
        case 'clear':
          // Rarely: it forgets the story so far.
          if (index > 0) break
          set.clear()
          list = []
      }
      expect([[...set], set.size, set.first]).toEqual([list, list.length, list[0]])
      for (const other of members) expect(set.has(other)).toBe(list.includes(other))
    }
  })
})
