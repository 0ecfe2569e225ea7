/** Values in a template: names of images, and quantities. Pure. */

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

const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/** Converts `500m` to 0.5 and `256Mi` to 268,435,456. Returns NaN if the text is malformed. */
export function quantityOf(text: string): number {
  const [, amount, suffix = ''] = /^\+?([\d.]+(?:[eE][+-]?\d+)?)([A-Za-z]{0,2})$/.exec(text) ?? []
  const factor = suffix === '' ? 1 : factors[suffix]
  return amount === undefined || factor === undefined ? NaN : Number(amount) * factor
}
