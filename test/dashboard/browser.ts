/**
 * The system's Chromium, for tests of the page. Without it, a placeholder test reports that they were left out; with
 * REQUIRE_ENGINES=chromium that test fails.
 */
import { existsSync } from 'node:fs'
import { type Browser, launch } from 'puppeteer-core'
import { expect, test } from 'vitest'

const places = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const executablePath = process.env['CHROMIUM'] ?? places.find((path) => existsSync(path))

export const hasBrowser = executablePath !== undefined

export function openBrowser(): Promise<Browser> {
  if (executablePath === undefined) throw new Error(`no Chromium in ${places.join(', ')}`)
  // In a container, root has no namespaces for Chromium's sandbox, and /dev/shm is small.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--force-color-profile=srgb', '--lang=en-GB']
  // Several start at the same time.
  const patience = { timeout: 110_000, protocolTimeout: 300_000 }
  return launch({ executablePath, args, ...patience, env: { ...process.env, TZ: 'UTC' } })
}

type Test = (what: string, run: () => Promise<void>, timeoutMs?: number) => void

export const testInBrowser: Test =
  executablePath === undefined
    ? (what) => {
        test(`LEFT OUT, this needs Chromium: ${what}`, () => {
          console.warn(`left out: ${what} (this needs Chromium)`)
          const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
          expect(required, 'REQUIRE_ENGINES wants these tests, but this machine lacks Chromium').not.toContain(
            'chromium',
          )
        })
      }
    : test
