/** `gamekeeper doctor` with a cluster: its clock, and rights that it really gives. */
import { expect, it } from 'vitest'
import { cli, emptyDirectory } from '../../cli/cli.js'
import { describeOnCluster } from './support/describe-on-cluster.js'

describeOnCluster('gamekeeper doctor on a cluster', () => {
  it('compares clocks, and reviews the rights of its user', { timeout: 300_000 }, async () => {
    const cwd = await emptyDirectory()
    const env = { BACKEND: 'kubernetes', KUBECONFIG: process.env['KUBECONFIG'] ?? '', ALLOCATION_PORT: '0' }
    const { stdout } = await cli(['doctor', '--json'], { cwd, env: { ...env, MANAGEMENT_PORT: '0', POD_NAME: 'a-1' } })
    const findings: { readonly check: string; readonly ok: boolean; readonly message: string }[] = JSON.parse(stdout)
    expect(findings.filter(({ check }) => check === 'clock of the cluster' || check === 'rights')).toEqual([
      {
        check: 'clock of the cluster',
        ok: true,
        message: expect.stringMatching(/^differs from this machine's by \d+ s or/),
      },
      { check: 'rights', ok: true, message: expect.stringMatching(/^all \d+ that a host needs$/) },
    ])
  })
})
