/** A connection to a host that a test can cut. */
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Wire {
  readonly url: string
  readonly cut: () => void
  readonly mend: () => void
}

/** Passes connections on until `cut`, which ends those that are open and refuses others until `mend`. */
export async function wireTo(url: string): Promise<Wire> {
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((near) => {
    if (isCut) return void near.destroy()
    const far = connect(Number(new URL(url).port), '127.0.0.1')
    open.add(near)
    near.pipe(far).pipe(near)
    near
      .on('error', () => {})
      .on('close', () => {
        open.delete(near)
        far.destroy()
      })
    far.on('error', () => {}).on('close', () => near.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    isCut = true
    for (const socket of open) socket.destroy()
  }
  onTestFinished(() => {
    cut()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return { url: `http://127.0.0.1:${address.port}/`, cut, mend: () => void (isCut = false) }
}
