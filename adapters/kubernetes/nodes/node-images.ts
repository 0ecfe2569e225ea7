/** The images that one node has: those that its kubelet lists, and those that the fleet has pulled there. Pure. */
import { readImageName } from '../../shared/image-name.js'
import type { ImageNames } from './node-cache.js'

/** By default, a kubelet lists only its largest images, up to this number. What a shorter list does not name, the node does not have. */
const maxListed = 50

export class NodeImages {
  #listed: ReadonlySet<string> = new Set()
  /** A kubelet may never list them, or only later. */
  readonly #pulled = new Set<string>()

  /** Takes the kubelet's list. Returns the images that the node has lost since the last one. */
  report(images: readonly ImageNames[]): readonly string[] {
    const before = this.#listed
    this.#listed = new Set(images.flatMap(({ names = [] }) => names.flatMap((name) => canonicalImage(name) ?? [])))
    if (images.length >= maxListed) return []
    const lost = [...before].filter((image) => !this.#listed.has(image))
    for (const image of lost) this.#pulled.delete(image)
    return lost
  }

  /** Call when the image, a canonical name, has been pulled. */
  add(image: string): void {
    this.#pulled.add(image)
  }

  has(image: string): boolean {
    return this.#listed.has(image) || this.#pulled.has(image)
  }
}

/**
 * The name with its registry and its tag or digest, in the form in which container runtimes list it: `docker.io/library/arena:latest` for
 * `arena`. Undefined if it is not the name of an image.
 */
export function canonicalImage(image: string): string | undefined {
  const name = readImageName(image)
  if (!name) return undefined
  const { registry, repository, tag } = name
  const path = repository.startsWith(`${registry}/`) ? repository.slice(registry.length + 1) : repository
  const isShort = registry === 'docker.io' && !path.includes('/')
  return `${registry}/${isShort ? 'library/' : ''}${path}${tag.includes(':') ? '@' : ':'}${tag}`
}
