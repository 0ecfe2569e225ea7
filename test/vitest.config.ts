import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('..', import.meta.url))
const at = (path: string) => `${root}${path}`

/** Tests in this process import the sources; processes that they start import the built package. */
export default defineConfig({
  root,
  resolve: {
    alias: [
      { find: /^gamekeeper$/, replacement: at('src/index.ts') },
      { find: /^gamekeeper\/(http|sdk|testing)$/, replacement: at('src/$1/index.ts') },
      { find: /^gamekeeper\/(memory|process)$/, replacement: at('adapters/$1/index.ts') },
    ],
  },
  test: {
    include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
    globalSetup: ['test/package/leftovers.ts'],
    pool: 'forks',
    /** Most tests wait for processes and sockets rather than compute. */
    maxWorkers: '100%',
    testTimeout: 20_000,
    hookTimeout: 60_000,
    coverage: { include: ['src/**', 'adapters/**'], reportsDirectory: 'coverage' },
  },
})
