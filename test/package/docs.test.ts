/** Checks the documentation as a whole: links resolve, and paths exist. */
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { describe, expect, it } from 'vitest'
import { anchors, links, pages, table } from './pages.js'
import { filesUnder, read, root } from './sources.js'

describe('links', () => {
  it.each(pages)('in %s point to a file and a heading that exist', (page) => {
    for (const target of links(page)) {
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : posix.join(posix.dirname(page), path)
      expect(existsSync(join(root, file)), `${page}: ${target}`).toBe(true)
      if (anchor !== undefined) expect(anchors(file), `${page}: ${target}`).toContain(anchor)
    }
  })

  it('from sources and tests to pages point to files that exist', () => {
    const sources = [...filesUnder('src', 'adapters', 'examples', 'test', '.scripts'), 'package.json']
    const missing = sources.flatMap((file) =>
      [...read(file).matchAll(/\bdocs\/[\w/-]+\.(?:md|json)\b/g)]
        .filter(([path]) => !existsSync(join(root, path)))
        .map(([path]) => `${file}: ${path}`),
    )
    expect(missing).toEqual([])
  })
})

describe('docs/architecture.md', () => {
  const page = read('docs/architecture.md')

  it.each([
    ['docs/architecture.md', 40],
    ['CONTRIBUTING.md', 10],
  ])('%s names only files and folders that exist', (name, least) => {
    const paths = [...read(name).matchAll(/`((?:src|adapters|test|examples|docs)\/[\w./-]*)`/g)].map(
      (match) => match[1] ?? '',
    )
    expect(paths.length).toBeGreaterThan(least)
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  it('has one line for each folder of src and adapters, down to the third level', () => {
    const listed = [...page.matchAll(/^\| `((?:src|adapters)\/[\w/-]*\/)` \|/gm)].map((match) => match[1] ?? '')
    const folders = new Set(filesUnder('src', 'adapters').map((file) => `${posix.dirname(file)}/`))
    folders.delete('src/')
    expect(listed.toSorted()).toEqual([...folders].filter((folder) => folder.split('/').length <= 4).toSorted())
  })
})

describe('docs/explanation/security.md', () => {
  it('names tests that exist, one or more for each threat', () => {
    const rows = table('docs/explanation/security.md', 'threat')
    expect(rows.length).toBeGreaterThan(15)
    for (const [threat, , tests = ''] of rows) {
      const paths = [...tests.matchAll(/`(test\/[\w./-]+\.test\.ts)`/g)].map(([, path = '']) => path)
      expect(paths, threat).not.toEqual([])
      expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
    }
  })
})
