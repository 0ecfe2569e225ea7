/** Notices when the reader of stdout has gone, as `head` does after its last line, although nothing is written to it. */
import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'
import { ownDescriptors } from '../platform/own-descriptors.js'

/**
 * Calls `gone` once, within a second or two. A pipe tells this only to a process that polls it, which Node does only while it writes.
 * GNU `tail -f` polls its stdout, so it shares ours and ends with the reader. Elsewhere, the next write finds out.
 */
export function watchStdoutReader(gone: () => void): void {
  if (process.platform !== 'linux' || !isPipe()) return
  const probe = spawn(...ownDescriptors('tail', ['-f', '/dev/null', `--pid=${process.pid}`]), {
    stdio: ['ignore', 'inherit', 'ignore'],
  })
  probe.once('exit', (_, signal) => {
    if (signal === 'SIGPIPE') gone()
  })
  // There is no tail.
  probe.once('error', () => {})
  probe.unref()
  process.once('exit', () => probe.kill())
}

function isPipe(): boolean {
  const stats = fstatSync(1)
  return stats.isFIFO() || stats.isSocket()
}
