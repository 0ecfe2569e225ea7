/** Reads package-lock.json. Pure. */

/**
 * @typedef {object} Locked
 * @property {string} [version]
 * @property {string} [license]
 * @property {string} [integrity]
 * @property {boolean} [link]
 * @property {boolean} [optional]
 * @property {readonly string[]} [cpu]
 * @property {Readonly<Record<string, string>>} [dependencies]
 * @property {Readonly<Record<string, string>>} [optionalDependencies]
 */

/** @typedef {{ readonly packages: Readonly<Record<string, Locked>> }} Lock */

/**
 * npm does not check the content of a package whose entry has no integrity. npm leaves it out for optional binaries of other
 * platforms that it could not look up when it wrote the file; only those may lack it.
 *
 * @param {Lock} lock
 * @returns {readonly string[]}
 */
export function entriesWithoutIntegrity({ packages }) {
  return Object.entries(packages)
    .filter(([path, { link }]) => path !== '' && link !== true)
    .filter(([, { integrity, optional, cpu }]) =>
      integrity === undefined ? !(optional === true && cpu !== undefined) : !integrity.startsWith('sha512-'),
    )
    .map(([path]) => path)
}

/**
 * The packages with these names at the root, and everything that they depend on, sorted by name. `optional`: npm leaves the
 * package out where it does not apply. `requiredBy`: the path of a package that depends on it.
 *
 * @param {Lock} lock
 * @param {readonly string[]} names
 */
export function shippedPackages({ packages }, names) {
  /** @type {Map<string, { readonly optional: boolean, readonly requiredBy: string }>} */
  const found = new Map()
  /** @type {(name: string, from: string, optional: boolean) => void} */
  const add = (name, from, optional) => {
    const path = resolve(packages, name, from)
    const before = path === undefined ? undefined : found.get(path)
    if (path === undefined || before?.optional === false || before?.optional === optional) return
    found.set(path, { optional, requiredBy: from })
    const { dependencies = {}, optionalDependencies = {} } = packages[path] ?? {}
    for (const each of Object.keys(dependencies)) add(each, path, optional)
    for (const each of Object.keys(optionalDependencies)) add(each, path, true)
  }
  for (const name of names) add(name, '', false)
  return [...found]
    .map(([path, how]) => ({ path, name: nameOf(path), version: packages[path]?.version ?? '', ...how }))
    .toSorted((a, b) => a.name.localeCompare(b.name, 'en') || a.path.localeCompare(b.path, 'en'))
}

/** @param {string} path */
function nameOf(path) {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

/**
 * Finds a package as Node does: in the nearest node_modules.
 *
 * @param {Lock['packages']} packages
 * @param {string} name
 * @param {string} from
 */
function resolve(packages, name, from) {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    const path = `${at === '' ? '' : `${at}/`}node_modules/${name}`
    if (path in packages) return path
    if (at === '') return undefined
  }
}
