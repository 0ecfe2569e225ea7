/**
 * `npm run api`: writes dist/api, one page for each subpath of the package, from the docstrings. The package contains it. `--check` writes
 * nothing and fails if the pages cannot be made.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application } from 'typedoc'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'dist/api')
const { exports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))

/** The source of each subpath with the subpath's name as a specifier. */
const entries = Object.entries(exports)
  .filter(([, target]) => typeof target === 'object')
  .map(([subpath, target]) => ({
    source: target.import.default.replace(/^\.\/dist\/(.*)\.js$/, '$1.ts'),
    specifier: posix.join('gamekeeper', subpath),
  }))

const markdown = {
  outputFileStrategy: 'modules',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  flattenOutputFiles: true,
}

const check = process.argv.includes('--check')
const target = check ? await mkdtemp(join(tmpdir(), 'gamekeeper-api-')) : folder
try {
  await generate(target)
} finally {
  if (check) await rm(target, { recursive: true, force: true })
}

/** @param {string} out */
async function generate(out) {
  process.chdir(root)
  const app = await Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: entries.map(({ source }) => source),
    tsconfig: 'tsconfig.json',
    // `npm run check` compiles everything, too.
    skipErrorChecking: true,
    readme: 'none',
    name: 'API reference',
    disableSources: true,
    disableGit: true,
    excludePrivate: true,
    excludeInternal: true,
    logLevel: 'Error',
    outputs: [{ name: 'markdown', path: out, options: markdown }],
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('typedoc could not read the sources')
  for (const { source, specifier } of entries) {
    const name = posix.dirname(source)
    const page = project.children?.find((child) => child.name === name)
    if (page === undefined) throw new Error(`typedoc has no module ${name}`)
    page.name = specifier
  }
  await app.generateOutputs(project)
  if (app.logger.hasErrors()) throw new Error('typedoc reported errors')
  await mendAnchors(out)
}

/**
 * The plugin counts some headings twice and links to `#name-1` although the page has one such heading only.
 *
 * @param {string} out
 */
async function mendAnchors(out) {
  const pages = await pagesIn(out)
  for (const [page, text] of pages) {
    const mended = text.replace(/\]\(([\w.-]*)#([\w-]+)-1\)/g, (link, path, name) => {
      const headings = (pages.get(path || page) ?? '').matchAll(/^#+ (.*)$/gm)
      const same = [...headings].filter(([, heading = '']) => heading.toLowerCase().replace(/[^\w-]/g, '') === name)
      return same.length === 1 ? `](${path}#${name})` : link
    })
    await writeFile(join(out, page), mended)
  }
}

/**
 * @param {string} directory
 * @returns {Promise<ReadonlyMap<string, string>>}
 */
async function pagesIn(directory) {
  const names = await readdir(directory, { recursive: true })
  const pages = names.filter((name) => name.endsWith('.md')).toSorted()
  return new Map(
    await Promise.all(
      pages.map(
        /** @returns {Promise<[string, string]>} */ async (page) => [
          page,
          await readFile(join(directory, page), 'utf8'),
        ],
      ),
    ),
  )
}
