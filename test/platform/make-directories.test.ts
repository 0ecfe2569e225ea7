/** makeDirectories creates directories or rejects with the system's error, and never hangs. */
import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { makeDirectories } from '../../src/platform/files.js'

async function temporary(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'gamekeeper-directories-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

describe('makeDirectories', () => {
  it('creates missing directories with the mode, and returns the first one', async () => {
    const root = await temporary()
    expect(await makeDirectories(join(root, 'a/b/c'), 0o700)).toBe(join(root, 'a'))
    for (const path of ['a', 'a/b', 'a/b/c']) expect((await stat(join(root, path))).mode & 0o777).toBe(0o700)
    expect(await makeDirectories(join(root, 'a/b/d'), 0o700)).toBe(join(root, 'a/b/d'))
    expect(await makeDirectories(join(root, 'a/b/d'), 0o700)).toBeUndefined()
  })

  it('tolerates concurrent creation of the same directory', async () => {
    const root = await temporary()
    await Promise.all(Array.from({ length: 10 }, () => makeDirectories(join(root, 'a/b/c'), 0o700)))
    expect((await stat(join(root, 'a/b/c'))).isDirectory()).toBe(true)
  })

  it('rejects with the system’s error', async () => {
    const root = await temporary()
    await writeFile(join(root, 'file'), '')
    await symlink(join(root, 'nowhere'), join(root, 'link'))
    await mkdir(join(root, 'there'))
    await symlink(join(root, 'there'), join(root, 'good-link'))
    await expect(makeDirectories(join(root, 'file'), 0o700)).rejects.toThrow('EEXIST')
    await expect(makeDirectories(join(root, 'file/below'), 0o700)).rejects.toThrow('ENOTDIR')
    await expect(makeDirectories(join(root, 'link'), 0o700)).rejects.toThrow('EEXIST')
    expect(await makeDirectories(join(root, 'good-link/a'), 0o700)).toBe(join(root, 'good-link/a'))
  })

  it('rejects if the system does not allow a directory there', async () => {
    await expect(makeDirectories('/proc/gamekeeper/below', 0o700)).rejects.toThrow(/mkdir '\/proc/)
  })
})
