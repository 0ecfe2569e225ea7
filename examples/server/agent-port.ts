/**
 * The port on which game servers reach the agent, kept in DATA_DIR. Those that run on from an earlier start know that
 * one and no other, so a server that may take any port takes the same one again.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const fileName = 'agent-port'

/** Undefined when nothing is known. */
export async function rememberedPort(dataDir: string): Promise<number | undefined> {
  let text: string
  try {
    text = await readFile(join(dataDir, fileName), 'utf8')
  } catch {
    // Not there, mostly. What is wrong with the directory, whoever needs it will say.
    return undefined
  }
  const port = /^\d{1,5}\n$/.test(text) ? Number(text) : 0
  return port > 0 && port <= 65_535 ? port : undefined
}

export async function rememberPort(dataDir: string, port: number): Promise<void> {
  const path = join(dataDir, fileName)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await writeFile(`${path}.tmp`, `${port}\n`, { mode: 0o600 })
  await rename(`${path}.tmp`, path)
}
