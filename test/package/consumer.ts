/** Projects of a consumer: a folder with the packed package, and nothing else of this repository. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, realpath, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from './sources.js'

const exec = promisify(execFile)

/** Builds and packs the package into `folder`. Returns the path of the archive. */
export async function pack(folder: string): Promise<string> {
  await exec(process.execPath, [join(root, '.scripts/build.mjs')])
  const { stdout } = await exec('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], {
    cwd: root,
  })
  return join(folder, stdout.trim())
}

/** Unpacks the archive as a dependency of the project in `folder`. */
export async function unpack(archive: string, folder: string): Promise<void> {
  const home = join(folder, 'node_modules/gamekeeper')
  await mkdir(home, { recursive: true })
  await exec('tar', ['-xzf', archive, '--strip-components=1', '-C', home])
}

/** Makes packages of this repository's node_modules available to the project in `folder`. */
export async function link(folder: string, packages: readonly string[]): Promise<void> {
  for (const name of packages) {
    const target = join(folder, 'node_modules', name)
    await mkdir(dirname(target), { recursive: true })
    await symlink(await realpath(join(root, 'node_modules', name)), target, 'junction')
  }
}

/** Copies packages of this repository's node_modules with all that they depend on into the project in `folder`. */
export async function copyWithDependencies(folder: string, packages: readonly string[]): Promise<void> {
  for (const name of packages) {
    const [from, to] = [join(root, 'node_modules', name), join(folder, 'node_modules', name)]
    // An optional dependency of another platform, or a package that is there already.
    if (!existsSync(from) || existsSync(to)) continue
    await cp(from, to, { recursive: true, dereference: true })
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
      await readFile(join(from, 'package.json'), 'utf8'),
    )
    await copyWithDependencies(folder, Object.keys({ ...dependencies, ...optionalDependencies }))
  }
}
