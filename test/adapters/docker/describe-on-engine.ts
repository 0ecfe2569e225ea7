/**
 * Tests that need a Docker engine. Without one, a placeholder test reports that they were left out; with
 * REQUIRE_ENGINES=docker that test fails.
 */
import { access } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { messageOf } from '../../../src/contracts/errors.js'
import { docker } from './engine.js'

export type Describe = (what: string, define: () => void) => void

const silence = await askEngine()

/** Tests that need the engine. */
export const describeOnEngine: Describe =
  silence === undefined ? describe : leaveOut(`no Docker engine answers: ${silence}`)

const lacking = await whatIsLacking()

/** Tests that start their own engine, which requires root on Linux and the programs of an engine. */
export const describeOnOwnEngine: Describe =
  lacking === undefined ? describeOnEngine : leaveOut(`no engine can be started here: ${lacking}`)

export function leaveOut(why: string): Describe {
  return (what) =>
    it(`LEFT OUT, ${why}: ${what}`, () => {
      console.warn(`left out: ${what} (${why})`)
      const required = (process.env['REQUIRE_ENGINES'] ?? '').split(',')
      expect(required, `REQUIRE_ENGINES wants tests on Docker, but ${why}`).not.toContain('docker')
    })
}

/** Undefined if the engine responds. */
async function askEngine(): Promise<string | undefined> {
  try {
    await docker.listContainers({ limit: 1, abortSignal: AbortSignal.timeout(10_000) })
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

/** Undefined if nothing is missing. */
async function whatIsLacking(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'that needs root on Linux'
  const folders = (process.env['PATH'] ?? '').split(':')
  for (const program of ['dockerd', 'containerd', 'ip']) {
    const found = await Promise.allSettled(folders.map((folder) => access(`${folder}/${program}`)))
    if (found.every(({ status }) => status === 'rejected')) return `${program} is not in PATH`
  }
  return undefined
}
