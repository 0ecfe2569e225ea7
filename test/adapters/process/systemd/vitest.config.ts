/** The tests that `systemd.test.ts` runs on a machine with systemd. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: fileURLToPath(new URL('../../../..', import.meta.url)),
  // The project is mounted read-only.
  cacheDir: join(tmpdir(), 'vite'),
  test: {
    include: ['test/adapters/process/systemd/*.inside.ts'],
    pool: 'forks',
    testTimeout: 240_000,
    hookTimeout: 120_000,
  },
})
