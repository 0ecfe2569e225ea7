/** Lists read in pages through the facade: what a caller sees while builds and servers come and go, and which input is refused. */
import type { Fleet, GameServer, Page } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, failureOf, nth, stage, untilReady } from './stage.js'

const namesIn = (items: readonly { readonly metadata: { readonly name: string } }[]) =>
  items.map(({ metadata }) => metadata.name)

/** Reads all pages; `between` runs after each page but the last. */
async function walk<T>(
  read: (next: string | undefined) => Promise<Page<T>>,
  between: (page: Page<T>) => Promise<unknown> = () => Promise.resolve(),
): Promise<readonly T[]> {
  const seen: T[] = []
  let next: string | undefined
  do {
    const page = await read(next)
    seen.push(...page.items)
    next = page.continue
    if (next !== undefined) await between(page)
  } while (next !== undefined)
  return seen
}

const noServers = { standingBy: 0, max: 3 }

describe('pages of builds', () => {
  it('have at most `limit` builds, oldest first, and the last one has no `continue`', async () => {
    const scene = stage()
    const fleet = await scene.open()
    for (const name of ['e', 'd', 'c', 'b', 'a']) {
      await fleet.builds.create(aBuild({ name, ...noServers }))
      await scene.clock.advance(1_000)
    }
    const first = await fleet.builds.page({ limit: 2 })
    expect(first).toEqual({ items: (await fleet.builds.list()).slice(0, 2), continue: expect.any(String) })
    const second = await fleet.builds.page({ limit: 3, continue: first.continue })
    expect(namesIn(second.items)).toEqual(['c', 'b', 'a'])
    expect(second).not.toHaveProperty('continue')
    expect(namesIn((await fleet.builds.page()).items)).toEqual(['e', 'd', 'c', 'b', 'a'])
  })

  it('continue after the last build was deleted, and after a restart of the host', async () => {
    const scene = stage()
    let fleet = await scene.open()
    for (const name of ['c', 'b', 'd', 'a']) await fleet.builds.create(aBuild({ name, ...noServers }))
    const walked = walk(
      (next) => fleet.builds.page({ limit: 1, continue: next }),
      async ({ items }) => {
        await fleet.builds.delete(nth(items, 0).metadata)
        await fleet.close()
        fleet = await scene.open()
      },
    )
    expect(namesIn(await walked)).toEqual(['a', 'b', 'c', 'd'])
  })
})

describe('pages of servers', () => {
  /** After each page, deletes a server that has been seen and one that has not, of those that may go. */
  function changing(fleet: Fleet, mayGo: Set<string>) {
    let created = 0
    return async ({ items }: Page<GameServer>) => {
      const seen = items.find(({ metadata }) => mayGo.has(metadata.name))?.metadata.name
      for (const name of [seen, [...mayGo].at(-1)]) {
        if (name === undefined) continue
        mayGo.delete(name)
        await fleet.servers.delete(name)
      }
      if (created < 4) await fleet.builds.create(aBuild({ name: `new-${++created}`, standingBy: 2 }))
    }
  }

  it.each([undefined, 'arena'])(
    'show each lasting server of %s exactly once while others come and go',
    async (build) => {
      const scene = stage()
      const fleet = await scene.open()
      await fleet.builds.create(aBuild({ standingBy: 12, max: 40 }))
      await fleet.builds.create(aBuild({ name: 'duel', standingBy: 5, max: 40 }))
      await untilReady(scene, fleet, 12)
      await untilReady(scene, fleet, 5, 'duel')
      const filter = build === undefined ? {} : { build }
      const before = namesIn(await fleet.servers.list(filter))
      const mayGo = new Set(before.filter((_, i) => i % 3 === 0))
      const lasting = new Set(before.filter((name) => !mayGo.has(name)))
      const change = changing(fleet, mayGo)
      const seen = await walk(
        (next) => fleet.servers.page({ ...filter, limit: 2, continue: next }),
        async (page) => {
          await change(page)
          await scene.clock.advance(2_000)
        },
      )
      expect(namesIn(seen).filter((name) => lasting.has(name))).toHaveLength(lasting.size)
      expect(new Set(namesIn(seen)).size).toBe(seen.length)
      if (build !== undefined) expect(namesIn(seen).every((name) => name.startsWith('arena-'))).toBe(true)
    },
  )
})

it('all items can be read one by one', async () => {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 5 }))
  await fleet.builds.create(aBuild({ name: 'duel', ...noServers }))
  await untilReady(scene, fleet, 5)
  const { all } = fleet.servers
  for (const options of [{}, { limit: 2 }, { build: 'arena', limit: 1 }]) {
    const seen: GameServer[] = []
    for await (const server of all(options)) seen.push(server)
    expect(seen).toEqual((await fleet.servers.page()).items)
  }
  const names: string[] = []
  for await (const { metadata } of fleet.builds.all({ limit: 1 })) names.push(metadata.name)
  expect(names).toEqual(['arena', 'duel'])
  await expect(fleet.servers.all({ build: 'nothing' }).next()).rejects.toThrow('default/nothing does not exist')
})

describe('a page is refused with `invalid`', () => {
  it.each([0, -1, 1.5, NaN, 10_001, '5' as never])('for the limit %s', async (limit) => {
    const fleet = await stage().open()
    for (const list of [fleet.builds, fleet.servers]) {
      const { code, message } = await failureOf(list.page({ limit }))
      expect([code, message]).toEqual([
        'invalid',
        expect.stringMatching(/^limit must be an integer from 1 to 10000, but is /),
      ])
    }
  })

  it.each(['x', '', 'bnVsbA', Buffer.from('["builds",1,"default"]').toString('base64url'), 7 as never])(
    'for the token %j',
    async (token) => {
      const { code, message } = await failureOf((await stage().open()).builds.page({ continue: token }))
      expect([code, message]).toEqual([
        'invalid',
        expect.stringMatching(/^continue must be what the page before returned/),
      ])
    },
  )

  it('for a token of another list or of another filter', async () => {
    const scene = stage()
    const fleet = await scene.open()
    for (const name of ['arena', 'duel']) {
      await fleet.builds.create(aBuild({ name }))
      await untilReady(scene, fleet, 2, name)
    }
    const lists = [
      (next?: string) => fleet.builds.page({ limit: 1, continue: next }),
      (next?: string) => fleet.servers.page({ limit: 1, continue: next }),
      (next?: string) => fleet.servers.page({ build: 'arena', limit: 1, continue: next }),
      (next?: string) => fleet.servers.page({ build: 'duel', limit: 1, continue: next }),
    ]
    for (const list of lists) {
      const token = (await list()).continue
      expect((await list(token)).items).toHaveLength(1)
      for (const other of lists) {
        if (other === list) continue
        const { code, message } = await failureOf(other(token))
        expect([code, message]).toEqual([
          'invalid',
          expect.stringMatching(/^continue is from a list of ".*", but this is /),
        ])
      }
    }
  })

  it('for an unknown option', async () => {
    const fleet = await stage().open()
    const wrong = { limits: 1 } as object
    expect((await failureOf(fleet.builds.page(wrong))).message).toBe(
      'builds.page: unknown option limits; did you mean limit?',
    )
    expect((await failureOf(fleet.servers.page(wrong))).message).toBe(
      'servers.page: unknown option limits; did you mean limit?',
    )
  })
})
