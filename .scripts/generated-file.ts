/** Writes a generated file. With `--check`, fails if the file in the working tree is out of date. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { format, resolveConfig } from 'prettier'

/** `path` is relative to the root of the repository. `command` is the command that regenerates the file. */
export async function writeOrCheck(path: string, content: string, command: string): Promise<void> {
  const file = fileURLToPath(new URL(`../${path}`, import.meta.url))
  // Pages are laid out by whoever writes them.
  const text = path.endsWith('.md')
    ? content
    : await format(content, { ...(await resolveConfig(file)), filepath: file })
  if (!process.argv.includes('--check')) return writeFile(file, text)
  const present = await readFile(file, 'utf8').catch(() => undefined)
  if (present === text) return
  console.error(`${path} is ${present === undefined ? 'missing' : 'out of date'}: ${command}`)
  process.exitCode = 1
}
