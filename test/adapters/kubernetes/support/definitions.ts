/** Installs this project's custom resource definitions in the test cluster. */
import { readFile } from 'node:fs/promises'
import { until } from '../../../e2e/until.js'
import { kubectl } from './cluster.js'

const file = new URL('../../../../adapters/kubernetes/crds.yaml', import.meta.url)

export async function definitionsText(): Promise<string> {
  return readFile(file, 'utf8')
}

/** Idempotent. Resolves when they are served and kubectl knows their short names. */
export async function installDefinitions(): Promise<void> {
  await kubectl('apply', '-f', file.pathname)
  await kubectl('wait', '--for=condition=Established', '--timeout=60s', '-f', file.pathname)
  // kubectl caches API resources for ten minutes; this refreshes the cache.
  await until('kubectl knows their short names', async () => {
    const known = await kubectl('api-resources', '--api-group=mps.gamekeeper.com', '--no-headers')
    return ['gsb,gkb', 'gs,gks', 'gsd,gkd', 'gsdm,gkdm', 'gka'].every((name) => known.includes(` ${name} `))
  })
}
