/** The schemas and the hand-written interfaces describe the same values. tsc checks this; vitest only runs the file. */
import { describe, expectTypeOf, it } from 'vitest'
import type { AllocationRequest, BuildSpec } from '../../../src/rules/model/resources.js'
import type { RunSpec } from '../../../src/rules/model/run.js'
import type {
  AllocationBody,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../../../src/rules/model/wire.js'
import type { allocation, allocationRequest } from '../../../src/rules/schemas/allocation.js'
import type { buildInput, buildPatch, buildSpec, gameServerBuild } from '../../../src/rules/schemas/build.js'
import type { gameServerBuildDetail, gameServerDetail } from '../../../src/rules/schemas/detail.js'
import type { FromSchema } from '../../../src/rules/schemas/schema.js'
import type { gameServer } from '../../../src/rules/schemas/server.js'
import type { BuildInput, BuildPatch } from '../../../src/rules/validation/requests.js'

type Expanded = 'portsToExpose' | 'template'

/** A request may omit the namespace, which then gets its default, and what `run` stands for. */
interface BuildBody {
  readonly metadata: Pick<BuildInput['metadata'], 'name'> & Partial<BuildInput['metadata']>
  readonly spec: Omit<BuildSpec, Expanded> & Partial<Pick<BuildSpec, Expanded>> & { readonly run?: RunSpec }
}

describe('schema types match their interfaces', () => {
  it('in requests', () => {
    expectTypeOf<FromSchema<typeof buildSpec>>().toEqualTypeOf<BuildSpec>()
    expectTypeOf<FromSchema<typeof buildInput>>().branded.toEqualTypeOf<BuildBody>()
    expectTypeOf<FromSchema<typeof buildPatch>>().toEqualTypeOf<BuildPatch>()
    expectTypeOf<FromSchema<typeof allocationRequest>>().branded.toEqualTypeOf<AllocationRequest>()
  })

  it('in responses', () => {
    expectTypeOf<FromSchema<typeof gameServerBuild>>().toEqualTypeOf<GameServerBuild>()
    expectTypeOf<FromSchema<typeof gameServer>>().toEqualTypeOf<GameServer>()
    expectTypeOf<FromSchema<typeof gameServerDetail>>().toEqualTypeOf<GameServerDetail>()
    expectTypeOf<FromSchema<typeof gameServerBuildDetail>>().branded.toEqualTypeOf<GameServerBuildDetail>()
    expectTypeOf<FromSchema<typeof allocation>>().branded.toEqualTypeOf<AllocationBody>()
  })
})
