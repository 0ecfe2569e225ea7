/** What package-lock.json says of the packages that are installed with this one. `npm run check` compares licences.md with it. */
import { describe, expect, it } from 'vitest'
import { entriesWithoutIntegrity, shippedPackages } from '../../.scripts/locked-packages.mjs'
import { read } from './sources.js'

const lock = JSON.parse(read('package-lock.json'))

describe('package-lock.json', () => {
  it('has the integrity of every package, except binaries of other platforms that npm could not look up', () => {
    expect(entriesWithoutIntegrity(lock)).toEqual([])
  })

  it('is checked: a package without integrity, or with a weak one, is reported', () => {
    const packages = {
      '': {},
      'node_modules/good': { integrity: 'sha512-x' },
      'node_modules/weak': { integrity: 'sha1-x' },
      'node_modules/none': {},
      'node_modules/optional': { optional: true },
      'node_modules/other-platform': { optional: true, cpu: ['arm64'] },
    }
    const unsafe = ['node_modules/weak', 'node_modules/none', 'node_modules/optional']
    expect(entriesWithoutIntegrity({ packages })).toEqual(unsafe)
  })
})

describe('the shipped packages', () => {
  it('include dependencies of dependencies, at the version that Node finds, but nothing else', () => {
    const packages = {
      '': {},
      'node_modules/a': { version: '1.0.0', dependencies: { b: '1' }, optionalDependencies: { d: '1' } },
      'node_modules/a/node_modules/b': { version: '1.0.0', dependencies: { c: '1' } },
      'node_modules/b': { version: '2.0.0' },
      'node_modules/c': { version: '3.0.0', dependencies: { a: '1' } },
      'node_modules/d': { version: '4.0.0', dependencies: { b: '2' } },
    }
    const found = shippedPackages({ packages }, ['a']).map(({ name, version, optional }) => [name, version, optional])
    expect(found).toEqual([
      ['a', '1.0.0', false],
      ['b', '1.0.0', false],
      ['b', '2.0.0', true],
      ['c', '3.0.0', false],
      ['d', '4.0.0', true],
    ])
  })

  it('are all on the page, as are those of the image', () => {
    const { dependencies }: { dependencies: object } = JSON.parse(read('package.json'))
    const page = read('docs/reference/licences.md')
    const names = [...Object.keys(dependencies), '@kubernetes/client-node', 'prom-client']
    for (const { name, version } of shippedPackages(lock, names))
      expect(page).toContain(`| \`${name}\` | ${version} | `)
  })
})
