/** Reads GameServer objects written by any version of the definitions and of the host. */
import { describe, expect, it } from 'vitest'
import type { KubeObject } from '../../../../adapters/kubernetes/client/kube-objects.js'
import { fleetResources } from '../../../../adapters/kubernetes/store/custom-collection.js'
import { newServerObject, readServer, serverStatus } from '../../../../adapters/kubernetes/store/server-object.js'
import type { Server } from '../../../../src/rules/model/resources.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { minimalServer } from '../../../../src/testing/records.js'

const ref = { namespace: 'games', name: 'arena-1' }
const open = { encrypt: (token: string) => token, decrypt: (token: string) => ({ token }) }

function written(server: Server, status?: object): KubeObject {
  const made: unknown = JSON.parse(JSON.stringify(newServerObject(server, fleetResources(), open, undefined)))
  return { metadata: ref, ...(isObject(made) && { spec: made['spec'] }), ...(status && { status }) }
}

describe('the grace period of a server', () => {
  const server = { ...minimalServer(ref), graceSeconds: 600 }

  it('is the one it was created with until its status is written', () => {
    expect(readServer(written(server), open)).toEqual(server)
  })

  it('is that of the template it runs, even if it was created with another one', () => {
    const renewed = { ...server, templateHash: 'another', graceSeconds: 5 }
    expect(readServer(written(server, serverStatus(renewed)), open)).toEqual(renewed)
  })

  it('is unknown in objects that do not say it, and is never taken from a template that the server does not run', () => {
    const before = minimalServer(ref)
    expect(readServer(written(before), open)).toEqual(before)
    const renewed = { ...before, templateHash: 'another' }
    expect(readServer(written(server, serverStatus(renewed)), open)).toEqual(renewed)
  })
})
