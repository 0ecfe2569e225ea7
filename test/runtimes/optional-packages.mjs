/**
 * Run by `.ci/optional-packages`, in a project that has the packed package and one version of an optional package, whose name is the
 * argument: the part of gamekeeper that needs it works, as far as it goes without an engine or a cluster. Prints `ok`, or what it says.
 */
import assert from 'node:assert/strict'
import { createFleet, FleetError } from 'gamekeeper'
import { dockerBackend } from 'gamekeeper/docker'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { memoryBackend } from 'gamekeeper/memory'
import { fleetMetrics } from 'gamekeeper/metrics'
import { tracedFleet } from 'gamekeeper/tracing'

const build = {
  metadata: { name: 'arena' },
  spec: { buildID: 'arena', standingBy: 1, max: 1, run: { command: ['game'] } },
}
const request = { buildID: 'arena', sessionID: 'first' }

/** @param {import('gamekeeper').Fleet} fleet */
async function play(fleet) {
  await fleet.builds.create(build)
  assert.equal((await fleet.allocate(request, { waitMs: 10_000 })).SessionID, 'first')
  await fleet.close()
}

/** @type {Readonly<Record<string, () => Promise<void>>>} */
const uses = {
  async 'prom-client'() {
    const fleet = await createFleet({ backend: memoryBackend(), logger: false })
    const metrics = fleetMetrics(fleet)
    assert.match(await metrics.text(), /gamekeeper_/)
    await play(fleet)
  },
  async '@opentelemetry/api'() {
    await play(tracedFleet(await createFleet({ backend: memoryBackend(), logger: false })))
  },
  async dockerode() {
    process.env['DOCKER_HOST'] = 'tcp://127.0.0.1:1'
    const backend = dockerBackend({ directory: 'data' })
    await assert.rejects(backend.list(), { code: 'unavailable' })
    await backend.close?.()
  },
  async '@kubernetes/client-node'() {
    process.env['KUBECONFIG'] = 'kubeconfig.yaml'
    const backend = kubernetesBackend()
    await assert.rejects(backend.list(), { code: 'unavailable' })
    await backend.close?.()
  },
}

try {
  await uses[process.argv[2] ?? '']?.()
  console.log('ok')
} catch (error) {
  // Its message names the package, its version, and one that fits this Node.
  if (!FleetError.is(error, 'internal')) throw error
  console.log(error.message)
}
