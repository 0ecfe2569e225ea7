/** What games learn about their node: its number of this server, names, region and folders. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { gsdkGame } from '../../games/gsdk-game.js'
import { checkInstanceNumbers, startedGame } from '../../games/started-game.js'
import { clusterApi, kubectl, makeNamespace, removeNamespace } from './support/cluster.js'
import { describeOnCluster } from './support/describe-on-cluster.js'
import { closeAll, newGroup, nextRange, open, type SpecOptions, specOf } from './support/support.js'

// Mostly spent waiting for the kubelet.
vi.setConfig({ maxConcurrency: 12, testTimeout: 200_000 })

describeOnCluster('a pod', () => {
  const api = clusterApi()
  let space = ''
  beforeAll(async () => {
    space = await makeNamespace(api)
  })
  afterAll(async () => {
    await closeAll()
    await removeNamespace(api, space)
    api.close()
  })

  const game = ({ container, ...options }: SpecOptions = {}) =>
    specOf(space, '', { container: { command: gsdkGame('cpp'), ...container }, ...options })

  it.concurrent('has the lowest free number of its node, and keeps it when another host takes over', async () => {
    const options = { apiGroup: newGroup(), portRange: nextRange(10) }
    const backend = open(space, options)
    const specs = [game(), game(), game(), game()] as const
    await checkInstanceNumbers(backend, specs, async () => {
      await backend.close()
      return open(space, options)
    })
    const number = `{.metadata.annotations.${options.apiGroup.replaceAll('.', '\\.')}/instance-number}`
    expect(await kubectl('get', 'pod', '-n', space, specs[3].ref.name, '-o', `jsonpath=${number}`)).toBe('2')
  })

  it.concurrent('gets the variables that the agent of PlayFab sets, and its folders exist', async () => {
    const place = { titleId: 'A1B2C', region: 'westeurope', publicAddress: '203.0.113.7' }
    const backend = open(space, { ...place, fullyQualifiedDomainName: '{node}.example.com' })
    // Folders must be usable by any user.
    const spec = game({ pod: { securityContext: { runAsUser: 1000 } } })
    await backend.create(spec)
    const { environment, config, folders } = await startedGame(backend, spec.ref)
    expect(environment).toMatchObject({
      PF_TITLE_ID: 'A1B2C',
      PF_REGION: 'westeurope',
      PF_FQDN: `${environment['PF_VM_ID']}.example.com`,
      PF_PUBLIC_IPV4_ADDRESS: '203.0.113.7',
      PF_SERVER_INSTANCE_NUMBER: '0',
      PF_SERVER_DUMP_DIRECTORY: '/gamekeeper/GameLogs/Dumps',
      PF_SHARED_CONTENT_FOLDER: '/gamekeeper/GameSharedContent',
      CERTIFICATE_FOLDER: '/gamekeeper/GameCertificates',
    })
    expect(config).toMatchObject({ fullyQualifiedDomainName: environment['PF_FQDN'], serverInstanceNumber: 0 })
    expect(folders).toEqual(expect.arrayContaining(['CERTIFICATE_FOLDER', 'PF_SERVER_DUMP_DIRECTORY']))
  })

  it.concurrent('may set its region, title and domain name in the template if no option does', async () => {
    const backend = open(space, { region: 'westeurope' })
    const env = [
      { name: 'PF_TITLE_ID', value: 'FFFFF' },
      { name: 'PF_FQDN', value: 'here.example.com' },
      { name: 'PF_REGION', value: 'ignored' },
    ]
    const spec = game({ container: { env } })
    await backend.create(spec)
    const { environment } = await startedGame(backend, spec.ref)
    expect(environment).toMatchObject({ PF_TITLE_ID: 'FFFFF', PF_FQDN: 'here.example.com', PF_REGION: 'westeurope' })
  })
})
