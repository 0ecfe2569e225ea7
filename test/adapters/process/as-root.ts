/**
 * Tests that need root on Linux, or cgroups. Without it, a placeholder test reports that they were left out; with
 * REQUIRE_ENGINES=root,cgroups that test fails.
 */
import { expect, test } from 'vitest'
import { missing } from '../../../adapters/process/isolation/cgroups.js'

type Test = (what: string, run: () => Promise<void>, timeoutMs?: number) => void

const isRoot = process.platform === 'linux' && process.getuid?.() === 0

export const testAsRoot: Test = isRoot ? test : leftOut('root', 'root on Linux')

/** Root, with cgroups that limit memory and tasks. */
export const testInCgroup: Test =
  isRoot && missing('memory') === undefined && missing('pids') === undefined
    ? test
    : leftOut('cgroups', 'root on Linux with writable cgroups')

function leftOut(requirement: string, needs: string): Test {
  return (what) => {
    test(`LEFT OUT, this needs ${needs}: ${what}`, () => {
      console.warn(`left out: ${what} (this needs ${needs})`)
      const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
      expect(required, `REQUIRE_ENGINES wants these tests, but this machine lacks ${needs}`).not.toContain(requirement)
    })
  }
}
