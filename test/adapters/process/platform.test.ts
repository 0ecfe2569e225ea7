/** What games learn about their machine: the server's number on it, its names, its region and their folders. */
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { gsdkGame } from '../../games/gsdk-game.js'
import { checkInstanceNumbers, startedGame } from '../../games/started-game.js'
import { cleanUp, freshDirectory, open, specOf } from './support.js'

afterEach(cleanUp)

const game = (name: string) => specOf(gsdkGame('cpp'), { name })

test('servers of one machine have the lowest free numbers, and keep them when the host restarts', async () => {
  const directory = freshDirectory()
  const backend = open(directory)
  await checkInstanceNumbers(backend, [game('a'), game('b'), game('c'), game('d')], async () => {
    await backend.close()
    return open(directory)
  })
})

test('a game gets the variables that the agent of PlayFab sets, and its folders exist', async () => {
  const directory = freshDirectory()
  const place = { node: 'box-1', titleId: 'A1B2C', region: 'westeurope', publicAddress: '203.0.113.7' }
  const backend = open(directory, { ...place, fullyQualifiedDomainName: '{node}.example.com' })
  await backend.create(game('a'))
  const { environment, config, folders } = await startedGame(backend, game('a').ref)
  const home = join(directory, 'instances', 'default.a')
  expect(environment).toMatchObject({
    PF_TITLE_ID: 'A1B2C',
    PF_REGION: 'westeurope',
    PF_FQDN: 'box-1.example.com',
    PF_PUBLIC_IPV4_ADDRESS: '203.0.113.7',
    PF_SERVER_INSTANCE_NUMBER: '0',
    PF_SERVER_DUMP_DIRECTORY: join(home, 'GameLogs', 'Dumps'),
    PF_SHARED_CONTENT_FOLDER: join(home, 'GameSharedContent'),
    CERTIFICATE_FOLDER: join(home, 'GameCertificates'),
  })
  expect(config).toMatchObject({ fullyQualifiedDomainName: 'box-1.example.com', serverInstanceNumber: 0 })
  expect(folders).toEqual(expect.arrayContaining(['CERTIFICATE_FOLDER', 'PF_SERVER_DUMP_DIRECTORY']))
})
