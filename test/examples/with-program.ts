/**
 * Tests that need a program in PATH. Without it, a placeholder test reports that they were left out; with
 * REQUIRE_ENGINES=<program> that test fails.
 */
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

/** `describe`, or the placeholder. Also for `describeOnCluster`, as `over`. */
export function describeWith(
  program: 'helm' | 'promtool',
  over: (what: string, define: () => void) => void = describe,
): (what: string, define: () => void) => void {
  if (spawnSync(program, ['--help']).error === undefined) return over
  return (what) =>
    it(`LEFT OUT, ${program} is not installed: ${what}`, () => {
      console.warn(`left out: ${what} (${program} is not installed)`)
      const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
      expect(required, `REQUIRE_ENGINES wants ${program}, but it is not installed`).not.toContain(program)
    })
}
