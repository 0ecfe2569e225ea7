/** The shell commands on the pages: where each is run, or why not. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { allBlocks, pages } from './pages.js'
import { read, root } from './sources.js'

interface Commands {
  readonly page: string
  /** How the lines begin that this row is about. */
  readonly begins: string
  /** The test that runs them, or the same program. */
  readonly ran: string
  /** Absent if the test runs exactly what is printed. */
  readonly instead?: string
}

const quick = 'the test runs the same program for a shorter time'

const table: readonly Commands[] = [
  { page: 'CONTRIBUTING.md', begins: 'npm', ran: '.ci/run' },
  { page: 'README.md', begins: 'npm init', ran: 'test/e2e/quickstart.test.ts' },
  { page: 'README.md', begins: 'node main.mjs', ran: 'test/e2e/quickstart.test.ts' },
  {
    page: 'docs/getting-started.md',
    begins: 'npm init',
    ran: 'test/e2e/quickstart.test.ts',
    instead: 'as in the README',
  },
  { page: 'docs/getting-started.md', begins: 'node main.mjs', ran: 'test/e2e/pages.test.ts' },
  { page: 'docs/getting-started.md', begins: 'curl', ran: 'test/e2e/pages.test.ts' },
  { page: 'docs/getting-started.md', begins: 'node --test', ran: 'test/e2e/pages.test.ts' },
  { page: 'docs/guides/games-without-sdk.md', begins: 'node main.mjs', ran: 'test/e2e/pages.test.ts' },
  { page: 'docs/reference/http-api.md', begins: 'curl', ran: 'test/e2e/pages.test.ts' },
  {
    page: 'docs/reference/http-api.md',
    begins: 'COMPAT=thundernetes',
    ran: 'test/server/server.test.ts',
    instead: 'the test starts the server with these variables and others',
  },
  ...['npx gamekeeper serve', 'curl'].map((begins) => ({
    page: 'docs/guides/coming-from-agones.md',
    begins,
    ran: 'test/e2e/agones-callers.test.ts',
    instead: 'the test runs a server from the checkout, at ports of its own',
  })),
  { page: 'docs/simulation.md', begins: 'npm run simulate', ran: 'test/simulation/simulation.test.ts', instead: quick },
  { page: 'docs/explanation/benchmarks.md', begins: 'npm run bench', ran: 'test/bench/bench.test.ts', instead: quick },
  ...['npm', 'npx vitest', 'export', 'docker pull', 'kind'].map((begins) => ({
    page: 'docs/explanation/running-the-tests.md',
    begins,
    ran: 'test/adapters/kubernetes/conformance.test.ts',
    instead:
      'these commands run the tests; those on a cluster run on the one in KUBECONFIG, whether or not kind made it',
  })),
  ...['echo', 'gamekeeper simulate --shape', 'gamekeeper simulate arena'].map((begins) => ({
    page: 'docs/guides/scaling.md',
    begins,
    ran: 'test/cli/simulate.test.ts',
    instead: 'the test simulates fewer sessions, and a recording of its own',
  })),
  {
    page: 'docs/guides/scaling.md',
    begins: 'gamekeeper demand',
    ran: 'test/cli/client-commands.test.ts',
    instead: 'the test reads what is printed',
  },
  { page: 'docs/explanation/soak.md', begins: 'npm run soak', ran: 'test/soak/soak.test.ts', instead: quick },
  {
    page: 'docs/guides/choosing-a-server.md',
    begins: 'curl',
    ran: 'test/client/client.test.ts',
    instead: 'the test sends such a body with the client',
  },
  ...['npx gamekeeper attach', 'echo'].map((begins) => ({
    page: 'docs/guides/running-the-server.md',
    begins,
    ran: 'test/cli/attach.test.ts',
    instead: 'the test names the server that runs',
  })),
  {
    page: 'docs/guides/systemd.md',
    begins: 'sudo',
    ran: 'test/examples/systemd.test.ts',
    instead: 'they change the machine; the test has systemd verify the unit',
  },
  {
    page: 'docs/guides/kubernetes.md',
    begins: 'kubectl wait',
    ran: 'test/adapters/kubernetes/store/allocations/allocations.test.ts',
    instead: 'the test reads the status itself, since older versions of kubectl cannot wait for it',
  },
  {
    page: 'docs/guides/kubernetes.md',
    begins: 'kubectl apply',
    ran: 'test/adapters/kubernetes/example.test.ts',
    instead: 'the test applies these files in namespaces of its own',
  },
  ...['npm ci', 'helm', 'kubectl get', 'kubectl delete', 'kubectl rollout', 'docker'].map((begins) => ({
    page: 'docs/guides/kubernetes.md',
    begins,
    ran: 'test/adapters/kubernetes/chart.test.ts',
    instead: 'the test runs the same commands for namespaces of its own, and does not really delete the definitions',
  })),
  {
    page: 'docs/guides/kubernetes.md',
    begins: 'kubectl drain',
    ran: 'test/adapters/kubernetes/pods/disruptions.test.ts',
    instead: 'the test selects the pods of its fleet, since other tests use the node',
  },
  {
    page: 'docs/guides/kubernetes.md',
    begins: 'kubectl create secret',
    ran: 'test/adapters/kubernetes/store/key.test.ts',
    instead: 'the test empties the Secret through the API',
  },
  {
    page: 'docs/guides/kubernetes.md',
    begins: 'kubectl port-forward',
    ran: 'test/adapters/kubernetes/chart.test.ts',
    instead: 'the test calls the Service itself, since a node may lack what kubectl needs to forward',
  },
  {
    page: 'docs/guides/migrating.md',
    begins: "sed 's/mps",
    ran: 'test/adapters/kubernetes/support/definitions.ts',
    instead: 'the tests replace the group in the same file before they apply it',
  },
  {
    page: 'docs/guides/securing.md',
    begins: 'curl --cacert',
    ran: 'test/http/tls.test.ts',
    instead: 'the test makes certificates and calls with the TLS client of Node',
  },
]

/** Installs a package that the manifest knows; the tests have it in node_modules. */
const installsPeer = /^npm install (@?[\w/-]+)@\d+$/

const commands = pages.flatMap((page) =>
  allBlocks(page)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text }) => commandsIn(text).map((command) => ({ page, command }))),
)

describe('the shell commands on the pages', () => {
  it('are each run by a test, or by one that is named with the difference', () => {
    const peers = Object.keys(JSON.parse(read('package.json')).peerDependencies)
    const untold = commands.filter(({ page, command }) => {
      const [, installed] = installsPeer.exec(command) ?? []
      if (installed !== undefined) return !peers.includes(installed)
      return !table.some((row) => row.page === page && command.startsWith(row.begins))
    })
    expect(untold).toEqual([])
  })

  it.each(table)('that begin with $begins are on $page, and the test exists', ({ page, begins, ran }) => {
    expect(commands.some((each) => each.page === page && each.command.startsWith(begins))).toBe(true)
    expect(existsSync(join(root, ran))).toBe(true)
  })

  it.each([...new Set(commands.flatMap(({ command }) => /\bnpm (?:run )?(start|[a-z:]+) ?/.exec(command)?.[1] ?? []))])(
    'npm run %s exists, or is a command of npm itself',
    (script) => {
      const { scripts } = JSON.parse(read('package.json'))
      expect([...Object.keys(scripts), 'init', 'install', 'ci']).toContain(script)
    },
  )
})

/** The commands of a block without comments. A command goes on in the next line after a backslash or within quotes. */
function commandsIn(text: string): readonly string[] {
  const found: string[] = []
  let open = false
  for (const line of text.split('\n')) {
    if (open) found.push(`${found.pop()}\n${line}`)
    else if (line.trim() !== '' && !line.startsWith('#')) found.push(line)
    open = line.endsWith('\\') || (found.at(-1)?.split("'").length ?? 1) % 2 === 0
  }
  return found
}
