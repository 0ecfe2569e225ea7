/** The schemas and the hand-written interfaces describe the same values. tsc checks this; vitest only runs the file. */
import { describe, expectTypeOf, it } from 'vitest'
import type { AllocationRequest, BuildSpec, RunSpec } from '../../../src/rules/model/resources.js'
import type {
  AllocationBody,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../../../src/rules/model/wire.js'
import type { allocation, allocationRequest } from '../../../src/rules/validation/allocation-schema.js'
import type {
  buildInput,
  BuildInput,
  buildPatch,
  BuildPatch,
  buildSpec,
  gameServerBuildSchema,
} from '../../../src/rules/validation/build-schema.js'
import type {
  gameServerBuildDetailSchema,
  gameServerDetailSchema,
  gameServerSchema,
} from '../../../src/rules/validation/server-schema.js'
import type { FromSchema } from '../../../src/rules/validation/schema.js'

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
    expectTypeOf<FromSchema<typeof gameServerBuildSchema>>().toEqualTypeOf<GameServerBuild>()
    expectTypeOf<FromSchema<typeof gameServerSchema>>().toEqualTypeOf<GameServer>()
    expectTypeOf<FromSchema<typeof gameServerDetailSchema>>().toEqualTypeOf<GameServerDetail>()
    expectTypeOf<FromSchema<typeof gameServerBuildDetailSchema>>().branded.toEqualTypeOf<GameServerBuildDetail>()
    expectTypeOf<FromSchema<typeof allocation>>().branded.toEqualTypeOf<AllocationBody>()
  })
})
