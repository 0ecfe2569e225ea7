/** The schema of a build's scaling policies, and what a schema cannot express. Pure. */
import type { BufferPolicy, ScalingSpec, WebhookPolicy } from '../scaling/policies.js'
import { withWebhookDefaults } from '../scaling/webhook-vote.js'
import { cronProblem, timeZoneProblem, type CronWindow } from '../scaling/windows.js'
import { invalid, type Refused, shown } from './problem.js'
import type { ArraySchema, NumberSchema, ObjectSchema, StringSchema } from './schema.js'
import { count } from './shared-schemas.js'

const seconds = { type: 'integer', minimum: 1, expected: 'an integer ≥ 1, in seconds' } as const satisfies NumberSchema
const duration = { type: 'integer', minimum: 0, expected: 'an integer ≥ 0, in seconds' } as const satisfies NumberSchema

const bufferFields = {
  min: { ...count, description: 'At least so many. Default: 0.', examples: [2] },
  percent: {
    type: 'integer',
    minimum: 0,
    maximum: 1_000,
    description: 'Percentage of the servers in use, rounded up. Default: 0.',
    examples: [20],
  },
  max: { ...count, description: "At most so many. Default: the build's max.", examples: [40] },
} as const

const cron = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  expected: 'a cron expression with five fields',
  description: 'Cron expression with five fields: minute, hour, day of the month, month, day of the week.',
} as const satisfies StringSchema

const timeZone = {
  type: 'string',
  minLength: 1,
  maxLength: 100,
  description: 'IANA name of the time zone of the cron expressions.',
  examples: ['Europe/Berlin'],
} as const satisfies StringSchema

const start = { ...cron, description: `When the window opens. ${cron.description}`, examples: ['0 18 * * *'] }
const end = { ...cron, description: `When it closes. ${cron.description}`, examples: ['0 23 * * *'] }

const windows = {
  type: 'array',
  minItems: 1,
  maxItems: 50,
  items: {
    type: 'object',
    unknownFields: 'refuse',
    expected: 'an object with start, end and numbers',
    required: ['start', 'end'],
    properties: {
      name: {
        type: 'string',
        minLength: 1,
        maxLength: 100,
        description: 'For people. Default: its start.',
        examples: ['evening'],
      },
      start,
      end,
      ...bufferFields,
    },
  },
  description: 'Windows of time, each with its own numbers. Of those that are open, the first counts.',
} as const satisfies ArraySchema

const functionName = {
  type: 'string',
  minLength: 1,
  maxLength: 100,
  controls: 'visible',
  expected: 'a name of 1 to 100 visible characters',
  description: 'Name of a function of the host app, one of createFleet({ scalingPolicies }), which asks for a number.',
  examples: ['match-day'],
} as const satisfies StringSchema

const webhook = {
  type: 'object',
  unknownFields: 'refuse',
  expected: 'an object with url',
  description:
    'A URL that is sent the demand and answers with a number, {"standingBy":2}. Its origin must be one that the host allows.',
  required: ['url'],
  properties: {
    url: {
      type: 'string',
      minLength: 1,
      maxLength: 2_000,
      description: 'An http or https URL. Redirects are not followed.',
      examples: ['https://demand.example/arena'],
    },
    everySeconds: {
      ...seconds,
      maximum: 86_400,
      description: 'It is asked at most once in so long. Default: 10.',
    },
    timeoutSeconds: { ...seconds, maximum: 60, description: 'How long it may take to answer. Default: 5.' },
    holdSeconds: {
      ...seconds,
      maximum: 604_800,
      description:
        'How long its last answer holds while no new one comes. At least everySeconds and timeoutSeconds together. Default: 300.',
    },
    otherwise: {
      ...count,
      description: 'The number that it asks for after that, and before its first answer. Default: 0.',
    },
  },
} as const satisfies ObjectSchema

export const scalingSchema = {
  type: 'object',
  unknownFields: 'refuse',
  minProperties: 1,
  expected: 'an object of scaling policies',
  description:
    'Policies by which the number of servers kept ready follows demand. The largest number counts, standingBy included, at most max.',
  dependentRequired: { replaceWindow: ['maxIdleAgeSeconds'] },
  properties: {
    buffer: {
      type: 'object',
      unknownFields: 'refuse',
      minProperties: 1,
      expected: 'an object with min, percent or both',
      description: 'The larger of min and percent, at most max.',
      properties: bufferFields,
    },
    schedule: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with timeZone and windows',
      description: 'Numbers for certain times.',
      required: ['timeZone', 'windows'],
      properties: { timeZone, windows },
    },
    forecast: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with aheadSeconds, growthPercent and timeZone, or empty',
      description:
        'As many servers as callers are expected while another one starts, from the callers at the same time of yesterday and of the same day of the last week.',
      properties: {
        aheadSeconds: {
          ...seconds,
          maximum: 14_400,
          description:
            'Callers are expected of so many seconds: as long as servers take to start. Default: as long as they took on average on the last two days.',
          examples: [120],
        },
        growthPercent: {
          type: 'integer',
          minimum: -90,
          maximum: 1_000,
          description:
            'How many percent more callers are expected than then. Default: as many more or fewer as in the last hour, from half to twice as many.',
        },
        timeZone: {
          ...timeZone,
          description: 'IANA name of the time zone whose clocks say what the same time is. Default: UTC.',
        },
      },
    },
    function: functionName,
    webhook,
    scaleDown: {
      type: 'object',
      unknownFields: 'refuse',
      minProperties: 1,
      expected: 'an object with delaySeconds, perMinute or both',
      description: 'How the number falls. It rises at once.',
      properties: {
        delaySeconds: {
          ...duration,
          maximum: 86_400,
          description: 'How long fewer servers must be enough before the number falls. Default: 300.',
        },
        perMinute: {
          type: 'integer',
          minimum: 1,
          maximum: 100_000,
          description: 'By how many servers the number then falls in a minute. Default: 10.',
        },
      },
    },
    idleSeconds: {
      ...seconds,
      description:
        'Time without a session and without callers after which the build keeps no server at all, until a caller comes. For builds of developers. Default: unlimited.',
    },
    overrideSeconds: {
      ...duration,
      maximum: 604_800,
      description:
        'For how long a standingBy that is set by hand, with a patch or kubectl scale, holds instead of the policies. 0: it is one of them. Default: 3,600.',
    },
    maxIdleAgeSeconds: {
      ...seconds,
      description:
        'Servers that have been standing by for longer are replaced, a few at a time, as in a rolling update. Default: unlimited.',
    },
    replaceWindow: {
      type: 'object',
      unknownFields: 'refuse',
      expected: 'an object with timeZone, start and end',
      description: 'When servers are replaced for their age. Default: at any time.',
      required: ['timeZone', 'start', 'end'],
      properties: { timeZone, start, end },
    },
  },
} as const satisfies ObjectSchema

/** What a schema cannot express. The path of the first problem begins with `spec.scaling`. */
export function checkScaling({
  buffer,
  forecast,
  schedule,
  webhook: hook,
  replaceWindow,
}: ScalingSpec): Refused | undefined {
  const path = 'spec.scaling'
  return (
    (buffer && checkBuffer(buffer, `${path}.buffer`)) ??
    (forecast?.timeZone === undefined ? undefined : checkTimeZone(forecast.timeZone, `${path}.forecast`)) ??
    (schedule && checkTimeZone(schedule.timeZone, `${path}.schedule`)) ??
    firstOf(schedule?.windows ?? [], (window, index) => {
      const at = `${path}.schedule.windows[${index}]`
      return checkWindow(window, at) ?? checkBuffer(window, at)
    }) ??
    (hook && checkWebhook(hook, `${path}.webhook`)) ??
    (replaceWindow &&
      (checkTimeZone(replaceWindow.timeZone, `${path}.replaceWindow`) ??
        checkWindow(replaceWindow, `${path}.replaceWindow`)))
  )
}

function checkBuffer({ min, percent, max }: BufferPolicy, path: string): Refused | undefined {
  if (min === undefined && percent === undefined) return invalid(path, 'must have min, percent or both')
  if (min === undefined || max === undefined || min <= max) return undefined
  return invalid(`${path}.min`, `must be at most ${path}.max, but min is ${min} and max is ${max}`)
}

function checkWebhook(policy: WebhookPolicy, path: string): Refused | undefined {
  const url = URL.canParse(policy.url) ? new URL(policy.url) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    return invalid(`${path}.url`, `must be an absolute http: or https: URL, but is ${shown(policy.url)}`)
  }
  if (url.username !== '' || url.password !== '') return invalid(`${path}.url`, 'must not contain credentials')
  const { everySeconds, holdSeconds, timeoutSeconds } = withWebhookDefaults(policy)
  const least = everySeconds + timeoutSeconds
  if (holdSeconds >= least) return undefined
  const sum = `everySeconds (${everySeconds}) and timeoutSeconds (${timeoutSeconds}) together`
  return invalid(`${path}.holdSeconds`, `must be at least ${sum}, but is ${holdSeconds}`)
}

function checkTimeZone(timeZone: string, path: string): Refused | undefined {
  const problem = timeZoneProblem(timeZone)
  return problem === undefined
    ? undefined
    : invalid(`${path}.timeZone`, `${problem}, but is ${JSON.stringify(timeZone)}`)
}

function checkWindow(window: CronWindow, path: string): Refused | undefined {
  return firstOf(['start', 'end'] as const, (field) => {
    const problem = cronProblem(window[field])
    return problem === undefined
      ? undefined
      : invalid(`${path}.${field}`, `${problem}, but is ${JSON.stringify(window[field])}`)
  })
}

function firstOf<T>(items: readonly T[], check: (item: T, index: number) => Refused | undefined): Refused | undefined {
  for (const [index, item] of items.entries()) {
    const refused = check(item, index)
    if (refused) return refused
  }
  return undefined
}
