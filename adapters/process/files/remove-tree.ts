/** Removes directories that a game may have made hard to remove. Touches only the file system. */
import { randomUUID } from 'node:crypto'
import { chmod, readdir, rename, rm } from 'node:fs/promises'

/** Far below the system's limit of 4096 bytes, so that a name of 255 bytes still fits. */
const maxPathBytes = 2048

/**
 * Removes a directory and its contents, including directories without permissions and paths that are longer than the system
 * accepts. Succeeds if the directory does not exist. Rejects with the system's error, for example for an immutable file.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    // Retries would multiply with the depth of the tree.
    await rm(path, { recursive: true, force: true })
  } catch {
    await makeRemovable(Buffer.from(path))
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Works with bytes, because names need not be valid UTF-8. */
async function makeRemovable(top: Buffer): Promise<void> {
  const directories = [top]
  for (let directory = directories.pop(); directory; directory = directories.pop()) {
    await permit(directory)
    for (const entry of await readdir(directory, { withFileTypes: true, encoding: 'buffer' })) {
      if (!entry.isDirectory()) continue
      const child = below(directory, entry.name)
      if (child.length <= maxPathBytes) directories.push(child)
      else directories.push(await moveUp(child, top))
    }
  }
}

async function moveUp(directory: Buffer, top: Buffer): Promise<Buffer> {
  // Moving a directory changes its parent entry, which needs write permission.
  await permit(directory)
  const moved = below(top, Buffer.from(randomUUID()))
  await rename(directory, moved)
  return moved
}

/** Root needs no permissions, and must not change those of a file that a link leads to. */
async function permit(directory: Buffer): Promise<void> {
  if (process.geteuid?.() !== 0) await chmod(directory, 0o700)
}

function below(directory: Buffer, name: Buffer): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), name])
}
