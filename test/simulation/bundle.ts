/** Makes one script of the simulation and the whole engine under it, on request with a deliberate bug in it. */
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** One replacement in one source file. */
export interface Change {
  /** From the root of the project. */
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly from: string
  readonly to: string
}

/** CommonJS text for a worker thread. Rejects when `change` does not fit the sources. */
export async function bundle(change?: Change): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [fileURLToPath(new URL('worker.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'cjs',
    // Loaded by the file store only, which the simulation does without.
    external: ['lmdb'],
    write: false,
    logLevel: 'silent',
    plugins: change ? [changing(change)] : [],
  })
  const [script] = outputFiles
  if (!script) throw new Error('esbuild wrote nothing')
  return script.text
}

/** How often `from` occurs in its file. */
export async function occurrences({ file, from }: Change): Promise<number> {
  return (await readFile(`${root}${file}`, 'utf8')).split(from).length - 1
}

function changing(change: Change): Plugin {
  return {
    name: 'change',
    setup({ onLoad, onEnd }) {
      let found = 0
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (relative(root, path).replaceAll('\\', '/') !== change.file) return undefined
        const parts = (await readFile(path, 'utf8')).split(change.from)
        found += parts.length - 1
        return { contents: parts.join(change.to), loader: 'ts' }
      })
      onEnd(() => {
        if (found === 1) return
        throw new Error(`${JSON.stringify(change.from)} occurs ${found} times in ${change.file}, not once`)
      })
    },
  }
}
