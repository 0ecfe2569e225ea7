/** What a GameServer object says of a server, by whichever version of the definitions and of the host it was written. */
import { describe, expect, it } from 'vitest'
import { fleetResources } from '../../../../adapters/kubernetes/store/objects/custom-resources.js'
import type { KubeObject } from '../../../../adapters/kubernetes/client/kube-objects.js'
import {
  newServerObject,
  readServer,
  serverStatus,
} from '../../../../adapters/kubernetes/store/objects/server-object.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import type { Server } from '../../../../src/rules/model/resources.js'
import { minimalServer } from '../../../../src/testing/records.js'

const ref = { namespace: 'games', name: 'arena-1' }
const open = { encrypt: (token: string) => token, decrypt: (sealed: string) => sealed }

function written(server: Server, status?: object): KubeObject {
  const made: unknown = JSON.parse(JSON.stringify(newServerObject(server, fleetResources(), open, undefined)))
  return { metadata: ref, ...(isObject(made) && { spec: made['spec'] }), ...(status && { status }) }
}

describe('the grace period of a server', () => {
  const server = { ...minimalServer(ref), graceSeconds: 600 }

  it('is what it was made with, until its status is written', () => {
    expect(readServer(written(server), open)).toEqual(server)
  })

  it('is that of what it runs, when it was made with another template', () => {
    const renewed = { ...server, templateHash: 'another', graceSeconds: 5 }
    expect(readServer(written(server, serverStatus(renewed, '7')), open)).toEqual(renewed)
  })

  it('is not said by an object of before, and not taken from a template that it does not run', () => {
    const before = minimalServer(ref)
    expect(readServer(written(before), open)).toEqual(before)
    const renewed = { ...before, templateHash: 'another' }
    expect(readServer(written(server, serverStatus(renewed, '7')), open)).toEqual(renewed)
  })
})
