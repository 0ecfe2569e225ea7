/** The custom resource definitions of this project, as the cluster of the tests has them. */
import { readFile } from 'node:fs/promises'
import { kubectl } from './cluster.js'

const file = new URL('../../../adapters/kubernetes/crds.yaml', import.meta.url)

export async function definitionsText(): Promise<string> {
  return readFile(file, 'utf8')
}

/** Installs them, or leaves them as they are; resolves when they are served. */
export async function installDefinitions(): Promise<void> {
  await kubectl('apply', '-f', file.pathname)
  await kubectl('wait', '--for=condition=Established', '--timeout=60s', '-f', file.pathname)
}
