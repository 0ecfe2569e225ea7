/** The notice of maintenance, read by the rules of each GSDK client. */
import { describe, expect, it } from 'vitest'
import { maintenanceNotice } from '../../../src/rules/game/heartbeat.js'
import { isObject } from '../../../src/rules/validation/problem.js'

const at = Date.UTC(2026, 10, 22, 20, 15, 30)
const notice = maintenanceNotice(at, 'node-1')
const time = '2026-11-22T20:15:30Z'
const event = {
  eventId: 'maintenance-1795378530',
  eventType: 'Reboot',
  resourceType: 'VirtualMachine',
  eventStatus: 'Scheduled',
  notBefore: time,
  description: 'Maintenance of node-1',
  eventSource: 'Platform',
  durationInSeconds: -1,
}

describe('the notice of maintenance', () => {
  it('has its time in whole seconds of UTC', () => {
    expect(notice.nextScheduledMaintenanceUtc).toBe(time)
    expect(maintenanceNotice(at + 999, 'node-1')).toEqual(notice)
  })

  it('has every field that C++, Java and Unity read, in camel case except for the lists', () => {
    expect(notice.maintenanceSchedule).toMatchObject({
      documentIncarnation: '1795378530',
      Events: [{ ...event, Resources: ['node-1'] }],
    })
  })

  it('has every field that Unreal reads, in Pascal case', () => {
    const capitalized = Object.fromEntries(
      Object.entries(event).map(([name, value]) => [name.charAt(0).toUpperCase() + name.slice(1), value]),
    )
    expect(notice.maintenanceSchedule).toMatchObject({
      DocumentIncarnation: '1795378530',
      Events: [{ ...capitalized, Resources: ['node-1'] }],
    })
  })

  it('has each list once, because C# ignores case and appends to a list that it has read', () => {
    const objects = [notice.maintenanceSchedule, ...notice.maintenanceSchedule.Events]
    for (const object of objects) {
      const lists = Object.entries(object).filter(([, value]) => Array.isArray(value))
      expect(lists).toHaveLength(1)
      for (const [name, value] of Object.entries(object)) {
        const sameName = Object.entries(object).filter(([other]) => other.toLowerCase() === name.toLowerCase())
        for (const [, other] of sameName) expect(other).toBe(value)
      }
    }
  })

  it('contains no null, no empty text and no nested object, which some clients reject', () => {
    const values = Object.values(notice.maintenanceSchedule.Events[0] ?? {})
    expect(values.filter((value) => value === null || value === '' || isObject(value))).toEqual([])
  })

  it('has another id for another time, and the same id for the same time', () => {
    const [other, same] = [maintenanceNotice(at + 1_000, 'node-1'), maintenanceNotice(at, 'node-1')]
    const idsOf = ({ maintenanceSchedule }: typeof notice) => [
      maintenanceSchedule.documentIncarnation,
      maintenanceSchedule.Events[0]?.eventId,
    ]
    expect(idsOf(same)).toEqual(idsOf(notice))
    for (const [index, id] of idsOf(other).entries()) expect(id).not.toBe(idsOf(notice)[index])
  })
})
