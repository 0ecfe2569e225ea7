/**
 * `npm run check`: runs all static checks in parallel. Prints how long each takes, and the output of those that fail. Run it
 * with npm, which adds the tools to the PATH.
 */
import { spawn } from 'node:child_process'

const checks = [
  {
    name: 'types',
    steps: [
      'tsc -p . --incremental --tsBuildInfoFile node_modules/.cache/gamekeeper.tsbuildinfo',
      'tsc -p src/dashboard/page',
    ],
  },
  { name: 'lint', steps: ['oxlint'] },
  { name: 'format', steps: ['prettier --check --log-level warn --cache .'] },
  {
    name: 'generated',
    steps: [
      'node --import tsx .scripts/openapi.ts --check',
      'node --import tsx .scripts/crds.ts --check',
      'node --import tsx .scripts/cli.ts --check',
      'node .scripts/licences.mjs --check',
    ],
  },
  { name: 'api reference', steps: ['node .scripts/api-reference.mjs --check'] },
  {
    name: 'structure',
    steps: ['vitest run --config test/vitest.config.ts test/package/boundaries test/package/tree'],
  },
  {
    name: 'package',
    steps: ['node .scripts/build.mjs', 'publint --strict', 'attw --pack'],
  },
]

const passed = await Promise.all(checks.map(run))
const failed = checks.filter((_, index) => !passed[index]).map((check) => check.name)
if (failed.length > 0) {
  console.error(`check failed: ${failed.join(', ')}`)
  process.exitCode = 1
}

/** @param {(typeof checks)[number]} check */
async function run({ name, steps }) {
  const startedAt = performance.now()
  for (const step of steps) {
    const { code, output } = await execute(step)
    if (code === 0) continue
    console.error(`FAIL  ${name}: ${step}\n${output.trimEnd()}\n`)
    return false
  }
  console.log(`ok    ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`)
  return true
}

/**
 * @param {string} command
 * @returns {Promise<{ readonly code: number | null, readonly output: string }>}
 */
function execute(command) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, {
      shell: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    child.stdout.on('data', (chunk) => (output += chunk))
    child.stderr.on('data', (chunk) => (output += chunk))
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
