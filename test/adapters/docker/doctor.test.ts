/** `gamekeeper doctor` with a Docker engine: a container reaches the agent, or does not. */
import { expect, it } from 'vitest'
import { cli, emptyDirectory } from '../../cli/cli.js'
import { describeOnEngine } from './describe-on-engine.js'
import { baseImage } from './engine.js'

describeOnEngine('gamekeeper doctor on a Docker engine', () => {
  it('tries from a container whether games reach the agent', { timeout: 300_000 }, async () => {
    const cwd = await emptyDirectory()
    const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0', PORT_RANGE: '30310-30319' }
    const own = process.env['DOCKER_HOST']
    const env = { ...ports, BACKEND: 'docker', ...(own !== undefined && { DOCKER_HOST: own }) }
    const args = ['doctor', '--image', baseImage]
    const { stdout } = await cli(args, { cwd, env })
    expect(stdout).toMatch(/\nok {3}agent from a container: containers reach host\.docker\.internal:\d+\n/)
    const wrong = await cli(args, { cwd, env: { ...env, AGENT_ADDRESS: 'host.docker.internal:1' } })
    expect(wrong.stdout).toMatch(
      /\nFAIL agent from a container: containers cannot reach host\.docker\.internal:1; let the firewall pass /,
    )
    expect(wrong.code).toBe(1)
  })
})
