/** The custom resource definitions of this project, as the cluster of the tests has them. */
import { readFile } from 'node:fs/promises'
import { until } from '../../../e2e/until.js'
import { kubectl } from './cluster.js'

const file = new URL('../../../../adapters/kubernetes/crds.yaml', import.meta.url)

export async function definitionsText(): Promise<string> {
  return readFile(file, 'utf8')
}

/** Installs them, or leaves them as they are; resolves when they are served, and kubectl knows their short names. */
export async function installDefinitions(): Promise<void> {
  await kubectl('apply', '-f', file.pathname)
  await kubectl('wait', '--for=condition=Established', '--timeout=60s', '-f', file.pathname)
  // kubectl keeps what a cluster has for ten minutes, and fails once on a short name that is not among it; this asks anew.
  await until('kubectl knows their short names', async () => {
    const known = await kubectl('api-resources', '--api-group=mps.gamekeeper.com', '--no-headers')
    return ['gsb', 'gs', 'gsd'].every((name) => known.includes(` ${name} `))
  })
}
