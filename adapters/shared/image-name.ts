/** The name of an image in a template. Pure. */

interface ImageName {
  /** The repository name in the form that the engine's pull call expects. */
  readonly repository: string
  /** A tag, or a digest such as `sha256:…`. */
  readonly tag: string
  /** For example `docker.io`, `ghcr.io` or `127.0.0.1:5000`. */
  readonly registry: string
}

const form =
  /^(?:[a-zA-Z0-9](?:[\w.-]*[a-zA-Z0-9])?(?::\d+)?\/)?[a-z0-9]+(?:(?:[._]|__|-+|\/)[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[0-9a-fA-F]{32,})?$/

/** Returns undefined if no engine would accept the name. */
export function readImageName(image: string): ImageName | undefined {
  if (!form.test(image) && !/^\[[0-9a-f:]+\]/.test(image)) return undefined
  const [path = '', digest] = image.split('@')
  const lastSlash = path.lastIndexOf('/')
  const colon = path.indexOf(':', lastSlash + 1)
  const repository = colon < 0 ? path : path.slice(0, colon)
  const first = repository.split('/')[0] ?? ''
  const named = repository.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  return {
    repository,
    tag: digest ?? (colon < 0 ? 'latest' : path.slice(colon + 1)),
    registry: named ? first : 'docker.io',
  }
}
