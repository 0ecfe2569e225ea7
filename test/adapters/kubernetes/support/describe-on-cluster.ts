/**
 * Tests that need a Kubernetes cluster. Without one in KUBECONFIG, a placeholder test reports that they were left out; with
 * REQUIRE_ENGINES=kubernetes that test fails.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { messageOf } from '../../../../src/contracts/errors.js'
import { clusterApi, kubectl } from './cluster.js'
import { loadImage } from './example-images.js'
import { baseImage } from './support.js'

export type Describe = (what: string, define: () => void) => void

const silence = await askCluster()

export const describeOnCluster: Describe =
  silence === undefined ? onCluster : leaveOut(`no Kubernetes cluster answers: ${silence}`)

/** A test that fails prints the state of the cluster, which another machine may not show again. */
function onCluster(what: string, define: () => void): void {
  describe(what, () => {
    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') console.warn(`${task.name}: the cluster afterwards\n${await state()}`)
    }, 30_000)
    define()
  })
}

async function state(): Promise<string> {
  const conditions = '{range .items[*]}{.metadata.name}{range .status.conditions[*]} {.type}={.status}{end}{"\\n"}{end}'
  const parts = await Promise.all([
    kubectl('get', 'nodes', '-o', `jsonpath=${conditions}`),
    kubectl('get', 'pods', '-A', '--field-selector=status.phase!=Running', '-o', 'wide'),
    kubectl('get', 'events', '-A', '--field-selector=type=Warning', '--sort-by=.lastTimestamp'),
  ]).catch((error: unknown) => [messageOf(error)])
  return parts.map((part) => part.trimEnd().split('\n').slice(-20).join('\n')).join('\n')
}

export function leaveOut(why: string): Describe {
  return (what) =>
    it(`LEFT OUT, ${why}: ${what}`, () => {
      console.warn(`left out: ${what} (${why})`)
      const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
      expect(required, `REQUIRE_ENGINES wants tests on Kubernetes, but ${why}`).not.toContain('kubernetes')
    })
}

/** Returns the reason that there is no cluster, or undefined if there is one. */
async function askCluster(): Promise<string | undefined> {
  if (process.env['KUBECONFIG'] === undefined) return 'KUBECONFIG is not set'
  try {
    const api = clusterApi()
    try {
      await api.request({ what: 'get its version', method: 'GET', path: '/version', timeoutMs: 10_000 })
      await loadImage(baseImage)
      return undefined
    } finally {
      api.close()
    }
  } catch (error) {
    return messageOf(error)
  }
}
