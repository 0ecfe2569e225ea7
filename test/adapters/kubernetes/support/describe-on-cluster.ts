/**
 * Tests that need a Kubernetes cluster. Without one in KUBECONFIG, a test in their place reports that they are left out; with
 * REQUIRE_ENGINES=kubernetes that test fails.
 */
import { describe, expect, it } from 'vitest'
import { messageOf } from '../../../../src/contracts/errors.js'
import { clusterApi } from './cluster.js'

export type Describe = (what: string, define: () => void) => void

const silence = await askCluster()

export const describeOnCluster: Describe =
  silence === undefined ? describe : leaveOut(`no Kubernetes cluster answers: ${silence}`)

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
      return undefined
    } finally {
      api.close()
    }
  } catch (error) {
    return messageOf(error)
  }
}
