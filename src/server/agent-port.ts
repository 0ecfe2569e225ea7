/**
 * Stores the agent's port in DATA_DIR. Game servers that have been running since an earlier start send heartbeats only to
 * the port used then, so with AGENT_PORT=0 the server uses that port again.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const fileName = 'agent-port'

/** Returns undefined if no valid port is stored. */
export async function rememberedPort(dataDir: string): Promise<number | undefined> {
  let text: string
  try {
    text = await readFile(join(dataDir, fileName), 'utf8')
  } catch {
    // Usually the file does not exist yet. Other problems with the directory are reported when the file is written.
    return undefined
  }
  const port = /^\d{1,5}\n$/.test(text) ? Number(text) : 0
  return port > 0 && port <= 65_535 ? port : undefined
}

export async function rememberPort(dataDir: string, port: number): Promise<void> {
  const path = join(dataDir, fileName)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  try {
    await writeFile(`${path}.tmp`, `${port}\n`, { mode: 0o600 })
    await rename(`${path}.tmp`, path)
  } catch (error) {
    await rm(`${path}.tmp`, { force: true })
    throw error
  }
}
