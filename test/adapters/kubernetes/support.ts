/** What the tests of the Kubernetes backend share. */

/** An image with a shell and node in it, which the nodes have. */
export const baseImage = 'node:20-slim'

let first = 21_000 + (process.pid % 20) * 200

/** So many numbers that no other test of this file has. */
export function nextRange(size: number): { readonly first: number; readonly last: number } {
  first += size
  return { first: first - size, last: first - 1 }
}
