/** Bundles the simulation and the engine into one script, optionally with a planted bug. */
import { readFile } from 'node:fs/promises'
import { basename, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A text replacement in one source file. */
export interface Change {
  /** Relative to the project root. */
  readonly file: string
  /** Must occur exactly once in the file. */
  readonly from: string
  readonly to: string
}

/** Resolves to CommonJS source for a worker thread. Rejects if `change` does not match the sources. */
export async function bundle(change?: Change): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [fileURLToPath(new URL('worker.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'cjs',
    // Only the file store uses lmdb, and the simulation does not load that store.
    external: ['lmdb'],
    write: false,
    logLevel: 'silent',
    plugins: change ? [plant(change)] : [],
  })
  const [script] = outputFiles
  if (!script) throw new Error('esbuild produced no output')
  return script.text
}

/** Counts how often `from` occurs in the file. */
export async function occurrences({ file, from }: Change): Promise<number> {
  return (await readFile(`${root}${file}`, 'utf8')).split(from).length - 1
}

function plant(change: Change): Plugin {
  return {
    name: 'plant',
    setup({ onLoad, onEnd }) {
      let found = 0
      // A filter that matched every source file would load each of them through this process, which takes a third longer.
      const filter = new RegExp(`${basename(change.file).replaceAll('.', '\\.')}$`)
      onLoad({ filter }, async ({ path }) => {
        if (relative(root, path).replaceAll('\\', '/') !== change.file) return undefined
        const parts = (await readFile(path, 'utf8')).split(change.from)
        found += parts.length - 1
        return { contents: parts.join(change.to), loader: 'ts' }
      })
      onEnd(() => {
        if (found === 1) return
        throw new Error(
          `${JSON.stringify(change.from)} must occur exactly once in ${change.file}, but occurs ${found} times`,
        )
      })
    },
  }
}
