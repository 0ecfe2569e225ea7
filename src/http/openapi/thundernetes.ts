/** Schemas for the requests and responses that `compat: 'thundernetes'` changes. */
import { buildInput, buildSpec, buildSpecInput, gameServerBuild } from '../../rules/schemas/build.js'
import { gameServerDetail } from '../../rules/schemas/detail.js'
import type { ObjectSchema } from '../../rules/schemas/schema.js'
import { gameServer } from '../../rules/schemas/server.js'

const spec = {
  ...buildSpec,
  id: 'ThundernetesBuildSpec',
  unknownFields: 'ignore',
  required: ['buildID', 'portsToExpose', 'template'],
  properties: {
    ...buildSpec.properties,
    standingBy: { ...buildSpec.properties.standingBy, default: 0 },
    max: { ...buildSpec.properties.max, default: 0 },
    crashesToMarkUnhealthy: {
      type: 'integer',
      minimum: 0,
      default: 5,
      description: 'Crashes after which the build is Unhealthy and gets no new servers. 0 means 5.',
    },
    buildMetadata: {
      type: 'array',
      description: buildSpec.properties.buildMetadata.description,
      items: {
        type: 'object',
        required: ['key', 'value'],
        properties: {
          key: { type: 'string', description: 'Unique; of a repeated key the last value counts.' },
          value: { type: 'string', description: 'Its value.' },
        },
      },
    },
  },
} as const satisfies ObjectSchema

const specInput = {
  ...spec,
  id: 'ThundernetesBuildSpecInput',
  required: ['buildID'],
  alternatives: buildSpecInput.alternatives,
  properties: { ...spec.properties, run: buildSpecInput.properties.run },
} as const satisfies ObjectSchema

export const thundernetesBuildInput = {
  ...buildInput,
  id: 'ThundernetesBuildInput',
  properties: { ...buildInput.properties, spec: specInput },
} as const satisfies ObjectSchema

export const thundernetesBuild = {
  ...gameServerBuild,
  id: 'ThundernetesBuild',
  properties: { ...gameServerBuild.properties, spec },
} as const satisfies ObjectSchema

export const gameServerBuildList = listOf('GameServerBuildList', thundernetesBuild)
export const gameServerList = listOf('GameServerList', gameServer)
export const gameServerDetailList = listOf('GameServerDetailList', gameServerDetail)

/** A list in the format that Kubernetes uses. */
function listOf(id: string, items: ObjectSchema): ObjectSchema {
  return {
    id,
    type: 'object',
    required: ['metadata', 'items'],
    properties: {
      metadata: { type: 'object', properties: {}, description: 'Always empty.' },
      items: { type: 'array', items, description: 'The objects.' },
    },
  }
}
