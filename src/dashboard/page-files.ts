/** Reads the files of the page, which the build puts beside the code. */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FleetError, messageOf } from '../contracts/errors.js'
import { packageRoot } from '../platform/packages.js'

export const pageFileNames = ['index.html', 'app.js', 'app.css', 'icon.svg', 'licences.txt'] as const
export type PageFileName = (typeof pageFileNames)[number]

/** The build writes each beside the file, as `app.js.br`; the best first. */
export const encodings = ['br', 'gzip'] as const
export type Encoding = (typeof encodings)[number]
const suffixes: Readonly<Record<Encoding, string>> = { br: '.br', gzip: '.gz' }

export interface PageFile {
  readonly content: Buffer
  readonly etag: string
}

/** A file as it is, and those of its encodings that the build has made. */
export interface PageFiles extends PageFile {
  readonly encoded: Readonly<Partial<Record<Encoding, PageFile>>>
}

const files = new Map<PageFileName, Promise<PageFiles>>()

/** Reads each file once. Throws `internal` if it is missing. */
export function readPageFile(name: PageFileName): Promise<PageFiles> {
  const known = files.get(name)
  if (known !== undefined) return known
  const reading = read(name)
  files.set(name, reading)
  reading.catch(() => files.delete(name))
  return reading
}

/** Throws `internal` if the page is not beside the code. */
export function throwIfMissing(): void {
  folderOfPage()
}

async function read(name: PageFileName): Promise<PageFiles> {
  const folder = folderOfPage()
  const file = await readFileIn(folder, name)
  if (!file) throw new FleetError('internal', `the dashboard's file ${name} is not in ${folder}`)
  const encoded: Partial<Record<Encoding, PageFile>> = {}
  for (const encoding of encodings) {
    const made = await readFileIn(folder, `${name}${suffixes[encoding]}`)
    if (made) encoded[encoding] = made
  }
  return { ...file, encoded }
}

/** In the image of the bundled server, the page is beside the bundle. */
function folderOfPage(): string {
  let root: string
  try {
    root = packageRoot()
  } catch (error) {
    throw new FleetError('internal', `the dashboard cannot be served: ${messageOf(error)}`, { cause: error })
  }
  const folders = [join(root, 'dist', 'page'), join(root, 'page')]
  const folder = folders.find((one) => existsSync(join(one, 'index.html')))
  if (folder === undefined) throw new FleetError('internal', `the dashboard's page is not in ${folders.join(' or ')}`)
  return folder
}

async function readFileIn(folder: string, name: string): Promise<PageFile | undefined> {
  const content = await readFile(join(folder, name)).catch(() => undefined)
  if (content === undefined) return undefined
  return { content, etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"` }
}
