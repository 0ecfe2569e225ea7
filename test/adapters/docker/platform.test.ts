/** What games learn about their machine: the server's number on it, its names, its region and their folders. */
import { afterEach, expect, it, vi } from 'vitest'
import { gsdkGame } from '../../games/gsdk-game.js'
import { checkInstanceNumbers, startedGame } from '../../games/started-game.js'
import { describeOnEngine } from './describe-on-engine.js'
import { cleanUp, freshDirectory, open, specOf } from './support.js'

afterEach(cleanUp)
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const game = () => specOf('', { container: { command: gsdkGame('cpp') } })

describeOnEngine('a container', () => {
  it('has the lowest free number of the engine, and keeps it when the host restarts', async () => {
    const directory = await freshDirectory()
    const backend = await open({ directory })
    await checkInstanceNumbers(backend, [game(), game(), game(), game()], async () => {
      await backend.close()
      return open({ directory, fleet: backend.fleet })
    })
  })

  it('gets the variables that the agent of PlayFab sets, and its folders exist', async () => {
    const place = { node: 'box-1', titleId: 'A1B2C', region: 'westeurope', publicAddress: '203.0.113.7' }
    const backend = await open({ ...place, fullyQualifiedDomainName: '{node}.example.com' })
    const spec = game()
    await backend.create(spec)
    const { environment, config, folders } = await startedGame(backend, spec.ref)
    expect(environment).toMatchObject({
      PF_TITLE_ID: 'A1B2C',
      PF_REGION: 'westeurope',
      PF_FQDN: 'box-1.example.com',
      PF_PUBLIC_IPV4_ADDRESS: '203.0.113.7',
      PF_SERVER_INSTANCE_NUMBER: '0',
      PF_SERVER_DUMP_DIRECTORY: '/gamekeeper/GameLogs/Dumps',
      PF_SHARED_CONTENT_FOLDER: '/gamekeeper/GameSharedContent',
      CERTIFICATE_FOLDER: '/gamekeeper/GameCertificates',
    })
    expect(config).toMatchObject({ fullyQualifiedDomainName: 'box-1.example.com', serverInstanceNumber: 0 })
    expect(folders).toEqual(expect.arrayContaining(['CERTIFICATE_FOLDER', 'PF_SERVER_DUMP_DIRECTORY']))
  })
})
