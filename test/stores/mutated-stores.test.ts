/** Hundreds of randomly damaged copies of a store: each opens with everything, or is refused with the reason. */
import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/virtual-clock.js'
import { copyWith, fill } from './damage.js'
import { temporaryDirectory } from './temporary.js'

const pageBytes = 4_096

type Mutation = (data: Buffer, random: Random, older: Buffer) => void

interface Random {
  /** An integer below `limit`. */
  below(limit: number): number
}

const mutations: Readonly<Record<string, Mutation>> = {
  byte: (data, { below }) => void data.writeUInt8(below(256), below(data.length)),
  bytes(data, { below }) {
    const at = below(data.length - 16)
    for (let i = 0; i < 16; i++) data.writeUInt8(below(256), at + i)
  },
  header: (data, { below }) => void data.writeUInt8(below(256), below(2) * pageBytes + below(176)),
  sector(data, { below }) {
    const at = below(data.length / 512) * 512
    data.fill(0, at, at + 512)
  },
  'zeroed page': (data, random) => void pageOf(data, random).fill(0),
  'random page': (data, random) => {
    const page = pageOf(data, random)
    for (let i = 0; i < page.length; i++) page[i] = random.below(256)
  },
  'misplaced page': (data, random) => pageOf(data, random).set(pageOf(data, random)),
  'older page'(data, { below }, older) {
    const at = below(older.length / pageBytes) * pageBytes
    older.copy(data, at, at, at + pageBytes)
  },
}

function pageOf(data: Buffer, { below }: Random): Buffer {
  const at = below(data.length / pageBytes) * pageBytes
  return data.subarray(at, at + pageBytes)
}

interface Outcome {
  readonly directory: string
  readonly found?: string
  readonly refused?: string
  /** The signal that ended the process. */
  readonly crashed?: string
}

it('each of 320 damaged stores has all its records, or is refused', { timeout: 480_000 }, async () => {
  const parent = await temporaryDirectory()
  const original = join(parent, 'original')
  const older = await fill(original, 60)
  const data = await readFile(join(original, 'data.mdb'))
  const source = seededRandom(20_261_123)
  const random = { below: (limit: number) => Math.floor(source() * limit) }
  const names = new Map([[original, 'nothing']])
  const kinds = Object.entries(mutations)
  for (let n = 0; n < 320; n++) {
    const [kind = '', mutate] = kinds[n % kinds.length] ?? []
    const damaged = Buffer.from(data)
    mutate?.(damaged, random, older)
    names.set(await copyWith(original, join(parent, String(n)), damaged), `${kind} ${n}`)
  }
  const outcomes = openAll([...names.keys()])
  const intact = outcomes.get(original)?.found
  expect(intact).toContain('arena-00059')
  const crashed = [...outcomes].filter(([, { crashed: signal }]) => signal !== undefined)
  expect(crashed.map(([directory, outcome]) => [names.get(directory), outcome.crashed])).toEqual([])
  const silent = [...outcomes].filter(([, { found }]) => found !== undefined && found !== intact)
  expect(silent.map(([directory]) => names.get(directory))).toEqual([])
  const count = [...outcomes.values()].filter(({ refused }) => refused !== undefined).length
  // Most of them are found; the others have hit free pages.
  expect(count).toBeGreaterThan(80)
})

/** Damage can end the process that opens the store: it is started again for the remaining stores. */
function openAll(directories: readonly string[]): ReadonlyMap<string, Outcome> {
  const opener = fileURLToPath(new URL('./children/opener.ts', import.meta.url))
  const outcomes = new Map<string, Outcome>()
  for (let left = directories; left.length > 0; left = left.filter((directory) => !outcomes.has(directory))) {
    const args = ['--import', import.meta.resolve('tsx'), opener, ...left]
    const { stdout, stderr, signal } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 30 })
    let opening: string | undefined
    for (const line of stdout.split('\n').slice(0, -1)) {
      const outcome: Outcome & { readonly opening?: string } = JSON.parse(line)
      opening = outcome.opening
      if (!opening) outcomes.set(outcome.directory, outcome)
    }
    if (opening) outcomes.set(opening, { directory: opening, crashed: `${signal} ${stderr}` })
    else if (!outcomes.has(left[0] ?? '')) throw new Error(stderr)
  }
  return outcomes
}
