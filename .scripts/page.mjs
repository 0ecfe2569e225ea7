/** Bundles the dashboard's page: a script, a style sheet and an icon with fixed names, without dependencies at run time. */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { build } from 'esbuild'
import ts from 'typescript'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'src', 'dashboard', 'page')

/** The packages in the bundle. docs/reference/licences.md lists them. */
export const bundledPackages = ['@preact/signals', '@preact/signals-core', 'croner', 'preact', 'uplot']

/**
 * The page checks specs with the schemas of the APIs, and shows none of their descriptions, which are many.
 *
 * @type {import('esbuild').Plugin}
 */
const withoutDescriptions = {
  name: 'without descriptions',
  setup({ onLoad }) {
    onLoad({ filter: /-schemas?\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8')
      const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
      /** @type {[number, number][]} */
      const values = []
      const visit = (/** @type {ts.Node} */ node) => {
        if (ts.isPropertyAssignment(node) && node.name.getText() === 'description')
          values.push([node.initializer.getStart(), node.initializer.end])
        else ts.forEachChild(node, visit)
      }
      visit(file)
      const contents = values.reduceRight((rest, [start, end]) => `${rest.slice(0, start)}''${rest.slice(end)}`, text)
      return { contents, loader: 'ts' }
    })
  },
}

/** @param {string} folder */
export async function buildPage(folder) {
  await mkdir(folder, { recursive: true })
  const { metafile } = await build({
    entryPoints: [
      { in: join(source, 'main.tsx'), out: 'app' },
      { in: join(source, 'styles', 'app.css'), out: 'app' },
    ],
    outdir: folder,
    tsconfig: join(source, 'tsconfig.json'),
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'silent',
    metafile: true,
    plugins: [withoutDescriptions],
  })
  const used = Object.keys(metafile.inputs).flatMap(
    (input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? [],
  )
  const unlisted = used.find((name) => !bundledPackages.includes(name))
  if (unlisted !== undefined) throw new Error(`the page contains ${unlisted}: add it to bundledPackages`)
  await Promise.all(['index.html', 'icon.svg'].map((name) => copyFile(join(source, name), join(folder, name))))
  const licences = await Promise.all(
    bundledPackages.map(
      async (name) => `${name}\n\n${await readFile(join(root, 'node_modules', name, 'LICENSE'), 'utf8')}`,
    ),
  )
  await writeFile(join(folder, 'licences.txt'), licences.join('\n\n'))
  await Promise.all(['app.js', 'app.css', 'licences.txt'].map((name) => compress(join(folder, name))))
}

/**
 * Writes `<file>.br` and `<file>.gz`, so that hosts need not compress.
 *
 * @param {string} file
 */
async function compress(file) {
  const content = await readFile(file)
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.byteLength }
  await Promise.all([
    promisify(brotliCompress)(content, { params }).then((made) => writeFile(`${file}.br`, made)),
    promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION }).then((made) => writeFile(`${file}.gz`, made)),
  ])
}
