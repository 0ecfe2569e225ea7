/** How the service of systemd in which a host runs is found. The managers themselves: `test/e2e/process-managers.test.ts`. */
import { expect, test } from 'vitest'
import { serviceIn } from '../../../adapters/process/run/process-manager.js'

test.each([
  ['0::/system.slice/gamekeeper.service\n', { name: 'gamekeeper.service', isOfUser: false }],
  [
    '0::/user.slice/user-1000.slice/user@1000.service/app.slice/arena.service\n',
    { name: 'arena.service', isOfUser: true },
  ],
  [
    '11:memory:/x\n1:name=systemd:/system.slice/gamekeeper.service\n0::/system.slice/gamekeeper.service\n',
    { name: 'gamekeeper.service', isOfUser: false },
  ],
  ['0::/user.slice/user-1000.slice/session-3.scope\n', undefined],
  ['0::/\n', undefined],
  ['', undefined],
])('in the cgroups %j, the host is part of the service %j', (cgroups, service) => {
  expect(serviceIn(cgroups)).toEqual(service)
})
