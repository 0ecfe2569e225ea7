import { fork } from 'node:child_process'
import { openProber } from './src/probes/network-prober.ts'
if (process.argv[2] === 'game') {
  const { openGame, aGame } = await import('./test/games/query-game.mjs')
  const g = aGame(); g.players = ['amie', 'ben', 'carl']
  const out: Record<string, number> = {}
  for (const p of ['a2s', 'minecraft', 'bedrock', 'sqp', 'http'] as const) out[p] = (await openGame(p, g)).port
  process.send!(out)
} else {
  const child = fork('cpu.tmp.mts', ['game'], { execArgv: ['--import', 'tsx'] })
  const ports: any = await new Promise((r) => child.once('message', r))
  const prober = openProber()
  const kinds: Record<string, () => Promise<unknown>> = {
    tcp: () => prober.check({ tcp: {} }, { host: '127.0.0.1', port: ports.http }, 2000),
    a2s: () => prober.players({ query: { protocol: 'a2s' } }, { host: '127.0.0.1', port: ports.a2s }, 2000),
    minecraft: () => prober.players({ query: { protocol: 'minecraft' } }, { host: '127.0.0.1', port: ports.minecraft }, 2000),
    http: () => prober.players({ http: { path: '/', field: 'players.names' } }, { host: '127.0.0.1', port: ports.http }, 2000).catch(() => {}),
    idle: async () => {},
  }
  for (const [name, ask] of Object.entries(kinds)) {
    for (let round = 0; round < 2; round++) {
      const before = process.cpuUsage(); const t0 = performance.now()
      let n = 0, bad = 0
      await new Promise<void>((done) => { const timer = setInterval(() => { ask().catch((e) => { bad++; if (bad === 1) console.log(e) }); if (++n === 1000) { clearInterval(timer); setTimeout(done, 50) } }, 5) })
      const { user, system } = process.cpuUsage(before); const ms = performance.now() - t0
      if (round) console.log(name, n, bad, `${((user + system) / 10 / ms).toFixed(1)} % at ${(n / ms * 1000).toFixed(0)}/s; ${((user + system) / n).toFixed(0)} us each`, `user ${user/1000|0} sys ${system/1000|0}`)
    }
  }
  child.kill(); process.exit(0)
}
