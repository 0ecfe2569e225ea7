/** A fleet in the process of the test, on the backend of the scenarios: for calls that have no HTTP operation. */
import { createFleet, type Backend, type Fleet, type FleetOptions, type GameServerBuild } from 'gamekeeper'
import { dockerBackend } from 'gamekeeper/docker'
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { processBackend } from 'gamekeeper/process'
import { onTestFinished } from 'vitest'
import type { PortRange } from '../../src/rules/model/ports.js'
import { backend, space } from './backend.js'
import type { buildOf } from './client.js'
import { portRange } from './port-ranges.js'
import type { Workplace } from './workplace.js'

/** Closed when the test ends, if the test does not close it. */
export async function ownFleet(
  { dataDir }: Workplace,
  {
    portRange: ports = portRange('own-fleet'),
    ...options
  }: Partial<FleetOptions> & { readonly portRange?: PortRange } = {},
): Promise<Fleet> {
  const fleet = await createFleet({ backend: open(dataDir, ports), agent: { port: 0 }, ...options })
  onTestFinished(() => fleet.close())
  return fleet
}

export function create(fleet: Fleet, { metadata, spec }: ReturnType<typeof buildOf>): Promise<GameServerBuild> {
  return fleet.builds.create({ metadata: { namespace: space(), ...metadata }, spec })
}

function open(directory: string, portRange: PortRange): Backend {
  switch (backend) {
    case 'process':
      return processBackend({ directory, portRange })
    case 'docker':
      return dockerBackend({ directory, portRange })
    case 'kubernetes':
      return kubernetesBackend({ namespaces: [space()], portRange, leaseMs: 15_000 })
  }
}
