/** docs/reference/cli.md shows what the command prints about itself. */
import { expect, it } from 'vitest'
import { settings, secretVariables } from '../../src/config/variables.js'
import { keyOf } from '../../src/config/define-config.js'
import { flagOf } from '../../src/config/resolve.js'
import { cliPage } from '../../.scripts/cli-page.js'
import { read } from '../package/sources.js'
import { cli } from './cli.js'

it('docs/reference/cli.md is what the parser says: npm run cli-page', () => {
  expect(read('docs/reference/cli.md')).toBe(cliPage())
})

it('serve --help lists each setting with its default, and secrets only as variables', async () => {
  const { stdout, code } = await cli(['serve', '--help'])
  const words = stdout.replaceAll(/\s+/g, ' ')
  const secrets: readonly string[] = secretVariables
  for (const [name, setting] of Object.entries(settings)) {
    expect(words).toContain(setting.meaning.replaceAll('`', ''))
    if (secrets.includes(name)) expect(words).not.toContain(` ${flagOf(name)} `)
    else expect(words).toContain(` ${flagOf(name)} `)
    if ('fallback' in setting) expect(words).toContain(`(default: ${setting.fallback})`)
    expect(keyOf(name)).toMatch(/^[a-zA-Z]+$/)
  }
  expect(code).toBe(0)
})
