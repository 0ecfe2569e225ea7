/** The linked set of the inventory and the wait queue. */
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { type Link, LinkedSet, unlinked } from '../../../src/engine/state/linked-set.js'

interface Member {
  readonly id: number
  readonly link: Link<Member>
}

const aMember = (id: number): Member => ({ id, link: unlinked() })
const aSet = () => new LinkedSet<Member>(({ link }) => link)
let members: readonly Member[] = []

/** New members each time, since a member stores its own position. */
function filled(): LinkedSet<Member> {
  members = Array.from({ length: 6 }, (_, id) => aMember(id))
  const set = aSet()
  for (const member of members) set.add(member)
  return set
}

const ids = (set: Iterable<Member>) => Array.from(set, ({ id }) => id)

/** Iterates over the set and runs `each` for every member. */
function read(set: LinkedSet<Member>, meanwhile: (member: Member) => void): readonly number[] {
  const seen: number[] = []
  for (const member of set) {
    seen.push(member.id)
    meanwhile(member)
  }
  return seen
}

describe('a linked set', () => {
  it('iterates in insertion order, oldest member first', () => {
    const set = filled()
    expect([ids(set), set.first?.id, set.size]).toEqual([[0, 1, 2, 3, 4, 5], 0, 6])
  })

  it('keeps a member’s position when it is added again', () => {
    const set = filled()
    for (const member of members) set.add(member)
    expect(ids(set)).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('inserts before a member at any position', () => {
    for (const place of [0, 3, 5]) {
      const set = filled()
      const later = members[place]
      if (later) set.addBefore(later, aMember(9))
      expect([ids(set), set.size]).toEqual([[0, 1, 2, 3, 4, 5].toSpliced(place, 0, 9), 7])
      expect(set.first?.id).toBe(place === 0 ? 9 : 0)
      set.add(aMember(10))
      expect(ids(set).at(-1)).toBe(10)
    }
  })

  it('moves a member from any position to the end', () => {
    for (const moved of [0, 1, 2, 3, 4, 5]) {
      const set = filled()
      for (const member of members) if (member.id === moved) set.moveToEnd(member)
      expect(ids(set)).toEqual([...[0, 1, 2, 3, 4, 5].filter((id) => id !== moved), moved])
    }
  })

  it('does not move an object that is not a member', () => {
    const set = filled()
    set.moveToEnd(aMember(9))
    expect(ids(set)).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('allows deleting the current member during iteration', () => {
    const set = filled()
    expect(read(set, (member) => set.delete(member))).toEqual([0, 1, 2, 3, 4, 5])
    expect([set.size, set.first]).toEqual([0, undefined])
  })

  it('allows deleting earlier members during iteration', () => {
    const set = filled()
    const all = [...members]
    expect(read(set, ({ id }) => all.slice(0, id).forEach((member) => set.delete(member)))).toEqual([0, 1, 2, 3, 4, 5])
    expect(ids(set)).toEqual([5])
  })

  it('iterates over members added during iteration', () => {
    const set = aSet()
    const late = aMember(7)
    set.add(aMember(0))
    expect(read(set, () => set.add(late))).toEqual([0, 7])
  })

  it('removes a member from another set that uses the same link', () => {
    const [one, other] = [filled(), aSet()]
    for (const member of [...one]) if (member.id % 2 === 0) other.add(member)
    expect([ids(one), ids(other)]).toEqual([
      [1, 3, 5],
      [0, 2, 4],
    ])
    expect([one.size, other.size]).toEqual([3, 3])
    expect(members.map((member) => one.has(member))).toEqual([false, true, false, true, false, true])
  })

  const step = fc.tuple(fc.constantFrom('add', 'delete', 'moveToEnd'), fc.nat(5))
  test.prop([fc.array(step, { maxLength: 60 })])('matches a plain array after any sequence of operations', (steps) => {
    members = Array.from({ length: 6 }, (_, id) => aMember(id))
    const set = aSet()
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
      }
      expect([[...set], set.size, set.first]).toEqual([list, list.length, list[0]])
      for (const other of members) expect(set.has(other)).toBe(list.includes(other))
    }
  })
})
