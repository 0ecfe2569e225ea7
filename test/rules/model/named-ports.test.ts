import { describe, expect, it } from 'vitest'
import { gamePortsOf } from '../../../src/rules/validation/pod-template.js'
import { findPort, namedPorts } from '../../../src/rules/model/ports.js'

const template = (...containers: readonly (readonly object[])[]) => ({
  spec: { containers: containers.map((ports) => ({ name: 'game', ports })) },
})
const portsOf = (numbers: readonly number[], ...containers: readonly (readonly object[])[]) =>
  namedPorts(
    numbers.map((container) => ({ container, public: container + 1_000 })),
    gamePortsOf(template(...containers)),
  )

describe('the ports of an allocated server', () => {
  it('have the names and protocols of the template, in the order of portsToExpose', () => {
    const declared = [
      { containerPort: 7777, name: 'game', protocol: 'UDP' },
      { containerPort: 7778, name: 'query' },
    ]
    expect(portsOf([7778, 7777], declared)).toEqual([
      { name: 'query', container: 7778, public: 8778, protocol: 'TCP' },
      { name: 'game', container: 7777, public: 8777, protocol: 'UDP' },
    ])
  })

  it('have a default name and protocol if the template does not declare them', () => {
    expect(portsOf([7777], [])).toEqual([{ name: 'port_7777', container: 7777, public: 8777, protocol: 'TCP' }])
    expect(portsOf([7777], [{ containerPort: 7777 }])).toMatchObject([{ name: 'port_7777' }])
  })

  it('lists a port twice that the template declares for two protocols', () => {
    const twice = [
      { containerPort: 7777, name: 'game', protocol: 'UDP' },
      { containerPort: 7777, protocol: 'TCP' },
    ]
    expect(portsOf([7777], twice)).toEqual([
      { name: 'game', container: 7777, public: 8777, protocol: 'UDP' },
      { name: 'game', container: 7777, public: 8777, protocol: 'TCP' },
    ])
  })

  it('may be declared by any container', () => {
    expect(portsOf([7777], [], [{ containerPort: 7777, name: 'relay' }])).toMatchObject([{ name: 'relay' }])
  })
})

describe('finding a port', () => {
  const two = portsOf([7777, 7778], [{ containerPort: 7777, name: 'game' }])

  it('works by name and by the number in the template', () => {
    expect(findPort(two, 'game')).toMatchObject({ value: { public: 8777 } })
    expect(findPort(two, 7778)).toMatchObject({ value: { public: 8778 } })
    expect(findPort(two, 'port_7778')).toMatchObject({ value: { public: 8778 } })
  })

  it('needs neither if there is only one, even for two protocols', () => {
    const declared = ['TCP', 'UDP'].map((protocol) => ({ containerPort: 7777, name: `game-${protocol}`, protocol }))
    expect(findPort(portsOf([7777], declared), undefined)).toMatchObject({ value: { public: 8777 } })
  })

  it.each([
    [two, undefined, 'needs a name or a number: this server has game (7777), port_7778 (7778)'],
    [two, 'gaem', '"gaem" does not exist: this server has game (7777), port_7778 (7778); did you mean game?'],
    [two, 8777, '8777 does not exist: this server has game (7777), port_7778 (7778)'],
    [two, null, 'null does not exist: this server has game (7777), port_7778 (7778)'],
    [[], undefined, 'does not exist: this server has no public ports; list them in portsToExpose of its build'],
  ])('of %j by %j fails, naming the ports that there are', (ports, which, message) => {
    expect(findPort(ports, which)).toEqual({ ok: false, problem: { field: 'port', message } })
  })
})
