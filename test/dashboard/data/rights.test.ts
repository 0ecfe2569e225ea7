/** What the page knows of its caller's rights, whatever order the answers arrive in. */
import { afterEach, expect, it, vi } from 'vitest'
import type { Ref } from '../../../src/rules/model/resources.js'

afterEach(() => {
  vi.unstubAllGlobals()
  vi.resetModules()
})

const arena = { namespace: 'team-a', name: 'arena' }
const duel = { namespace: 'team-b', name: 'duel' }

/** By a variable: the module is for browsers, whose globals are not among the types of tests. */
const access: string = new URL('../../../src/dashboard/page/data/access.ts', import.meta.url).pathname

interface Rights {
  may(name: string, to?: Ref): boolean
  read(to?: Ref): Promise<void>
  forget(): void
}

/** The module as in a page, with a host that answers when the test says so. */
async function pageRights() {
  const answers = new Map<string, (operations: readonly string[]) => void>()
  vi.stubGlobal('sessionStorage', { getItem: () => null })
  vi.stubGlobal('document', { baseURI: 'http://host/' })
  vi.stubGlobal('fetch', (url: string) => {
    const name = new URL(url).searchParams.get('name') ?? ''
    return new Promise<Response>((resolve) => {
      answers.set(name, (operations) => resolve(Response.json({ operations })))
    })
  })
  const { rights }: { readonly rights: Rights } = await import(/* @vite-ignore */ access)
  return { rights, answer: (name: string, operations: readonly string[]) => answers.get(name)?.(operations) }
}

it('the answer about a view that was left does not replace the one about the view that is shown', async () => {
  const { rights, answer } = await pageRights()
  const reads = [rights.read(arena), rights.read(duel)]
  answer('duel', ['getBuild'])
  await reads[1]
  answer('arena', ['getBuild', 'deleteBuild'])
  await reads[0]
  expect(rights.may('deleteBuild', duel)).toBe(false)
})

it('an answer that arrives after signing out is about somebody else', async () => {
  const { rights, answer } = await pageRights()
  const reads = [rights.read(), rights.read(arena)]
  rights.forget()
  answer('', [])
  answer('arena', [])
  await Promise.all(reads)
  expect([rights.may('endSession'), rights.may('deleteBuild', arena)]).toEqual([true, true])
})
