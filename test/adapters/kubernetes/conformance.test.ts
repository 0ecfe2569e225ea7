/** The conformance suite of all backends, with real pods on a real cluster. */
import { kubernetesBackend } from 'gamekeeper/kubernetes'
import { backendConformance, type ConformanceProgram } from 'gamekeeper/testing'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Ref } from '../../../src/rules/model/resources.js'
import { clusterApi, kubectl, makeNamespace, removeNamespace } from './support/cluster.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { baseImage, newGroup, nextRange } from './support/support.js'

// Pods take seconds to start and to terminate, so cases run concurrently.
vi.setConfig({ maxConcurrency: 12 })

describeOnCluster('the Kubernetes backend', () => {
  const api = clusterApi()
  const namespaces: [string, string] = ['', '']

  beforeAll(async () => {
    namespaces[0] = await makeNamespace(api)
    namespaces[1] = await makeNamespace(api)
  })
  afterAll(async () => {
    await Promise.all(namespaces.map((name) => removeNamespace(api, name)))
    api.close()
  })

  const sh = (script: string) => ['sh', '-c', script]
  const commands: Record<ConformanceProgram, readonly string[]> = {
    // PID 1 of a container ignores signals that it does not handle.
    runs: sh(`trap 'exit 0' TERM; sleep 600 & wait`),
    'exits-0': sh('exit 0'),
    'exits-3': sh('exit 3'),
    'exits-5-late': sh('sleep 1; exit 5'),
    'ignores-terminate': sh(`trap 'echo signalled' TERM; echo up; while :; do sleep 0.1; done`),
    'no-such-command': ['/no/such/command'],
    'prints-stdin': ['cat'],
  }
  const logged = async ({ namespace, name }: Ref, text: string) => {
    const log = () => kubectl('logs', '-n', namespace, name)
    await vi.waitFor(async () => expect(await log()).toContain(text), { timeout: 60_000, interval: 200 })
  }
  const cases = backendConformance({
    graceMs: 2_000,
    timeoutMs: 150_000,
    namespaces,
    template: (program) => ({
      spec: {
        automountServiceAccountToken: false,
        containers: [
          {
            name: 'game',
            image: baseImage,
            imagePullPolicy: 'Never',
            command: commands[program],
            stdin: program === 'prints-stdin',
          },
        ],
      },
    }),
    programUp: ({ ref }) => logged(ref, 'up'),
    programSignalled: ({ ref }) => logged(ref, 'signalled'),
    async open({ publicPorts = 20 }) {
      const apiGroup = newGroup()
      const portRange = nextRange(publicPorts)
      const open = () => kubernetesBackend({ apiGroup, namespaces, portRange, leaseMs: 15_000 })
      return {
        backend: open(),
        reopen: async () => open(),
        async cleanup() {
          const query = { labelSelector: `${apiGroup}/server` }
          const { items } = await api.list({ what: 'list pods', method: 'GET', path: '/api/v1/pods', query })
          expect(items.map(({ metadata }) => metadata.name)).toEqual([])
        },
      }
    },
  })
  describe.concurrent('passes:', () => {
    for (const one of cases) {
      it(one.name, { timeout: 300_000 }, async ({ onTestFailed }) => {
        // What a kubelet says of a pod is nowhere else, and gone with the namespace.
        onTestFailed(async () => {
          for (const namespace of namespaces)
            console.error(await kubectl('get', 'pods,events', '-o', 'wide', '-n', namespace))
        })
        await one.run()
      })
    }
  })
})
