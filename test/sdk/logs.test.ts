import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { start } from 'gamekeeper/sdk'
import { createLogs } from '../../src/sdk/game-logs.js'
import { configuredFor, fakeAgent, quick, says, temporaryFolder, until } from './fake-agent.js'

function silence(stream: 'stdout' | 'stderr') {
  const spy = vi.spyOn(process[stream], 'write').mockImplementation(() => true)
  onTestFinished(() => spy.mockRestore())
  return spy
}

describe('logs', () => {
  it('go to a file in the log folder, with timestamps, and to stdout', async () => {
    const printed = silence('stdout')
    const folder = join(await temporaryFolder(), 'made', 'when', 'needed')
    const logs = createLogs(folder)
    expect(logs.folder).toBe(folder)
    logs.write('round 1')
    logs.write('round 2')
    const lines = (await readFile(logs.file ?? '', 'utf8')).split('\n')
    expect(lines).toEqual([
      expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z\tround 1$/),
      expect.stringMatching(/\tround 2$/),
      '',
    ])
    expect(printed.mock.calls).toEqual([['round 1\n'], ['round 2\n']])
  })

  it('go only to stdout if the folder is not writable, with one warning', async () => {
    const printed = silence('stdout')
    const complaints = silence('stderr')
    const file = join(await temporaryFolder(), 'a-file')
    await writeFile(file, '')
    const logs = createLogs(join(file, 'folder'))
    logs.write('round 1')
    logs.write('round 2')
    expect(printed).toHaveBeenCalledTimes(2)
    expect(complaints).toHaveBeenCalledExactlyOnceWith(expect.stringContaining('cannot be written'))
  })

  it('go only to stdout if the fleet names no folder', () => {
    const printed = silence('stdout')
    const logs = createLogs(undefined)
    logs.write('round 1')
    expect(logs.file).toBeUndefined()
    expect(printed).toHaveBeenCalledExactlyOnceWith('round 1\n')
  })

  it("contain the SDK's own messages, unless it has a logger", async () => {
    silence('stdout')
    const agent = await fakeAgent()
    const { GSDK_CONFIG_FILE } = await configuredFor(agent.endpoint)
    const gsdk = await start({ env: { GSDK_CONFIG_FILE }, timing: quick })
    onTestFinished(() => gsdk.stop())
    gsdk.onTerminate(() => {
      throw new Error('no goodbye')
    })
    agent.reply = (_heard, response) => void response.writeHead(500).end()
    await until(() => agent.beats.length >= 3)
    agent.reply = says('Terminate')
    await until(() => agent.last()?.state === 'Terminating')
    const text = await readFile(gsdk.logs.file ?? '', 'utf8')
    expect(text).toContain(`[gsdk] warn: the agent at ${agent.endpoint} does not answer`)
    expect(text).toContain('[gsdk] info: the agent')
    expect(text).toMatch(/\[gsdk\] error: an onTerminate callback failed\nError: no goodbye\n +at /)
    expect(text).not.toContain('6f1c')
  })
})
