/** Every metric: name, type, labels and meaning. docs/metrics.md shows this table; a test keeps the two equal. Pure. */

export interface MetricDefinition {
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
  /** Upper bounds in seconds, of a histogram. */
  readonly buckets?: readonly number[]
}

const build = ['namespace', 'build'] as const

export const definitions = {
  gamekeeper_servers: {
    type: 'gauge',
    help: 'Servers of a build by state: Pending, Initializing, StandingBy, Active or Terminating.',
    labels: [...build, 'state'],
  },
  gamekeeper_build_standing_by: {
    type: 'gauge',
    help: 'Servers that a build is to have standing by.',
    labels: build,
  },
  gamekeeper_build_max: { type: 'gauge', help: 'Servers that a build may have.', labels: build },
  gamekeeper_build_healthy: { type: 'gauge', help: '1 while a build is Healthy, 0 once it is not.', labels: build },
  gamekeeper_players: { type: 'gauge', help: 'Players connected to the servers of a build.', labels: build },
  gamekeeper_waiting_callers: {
    type: 'gauge',
    help: 'Callers of allocate that wait for a server of a build.',
    labels: build,
  },
  gamekeeper_leader: { type: 'gauge', help: '1 while this host leads the fleet.', labels: [] },
  gamekeeper_store_up: { type: 'gauge', help: '1 while the store answers.', labels: [] },
  gamekeeper_backend_up: { type: 'gauge', help: '1 while the backend answers.', labels: [] },
  gamekeeper_allocation_duration_seconds: {
    type: 'histogram',
    help: 'Time of a call of allocate, waiting included, by outcome: ok or the code of its error.',
    labels: ['outcome'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  gamekeeper_reconcile_duration_seconds: {
    type: 'histogram',
    help: 'Time of a pass over a build.',
    labels: [],
    buckets: [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1],
  },
  gamekeeper_backend_call_duration_seconds: {
    type: 'histogram',
    help: 'Time of a call of the backend: create, destroy, list, prepare, protect or find; its outcome is ok or failed.',
    labels: ['operation', 'outcome'],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  },
  gamekeeper_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Time of a call of the store: get, list, create, update or delete of builds, servers or details; its outcome is ok, conflict or failed.',
    labels: ['collection', 'operation', 'outcome'],
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5],
  },
  gamekeeper_servers_ended_total: {
    type: 'counter',
    help: 'Servers that ended, by reason.',
    labels: [...build, 'reason'],
  },
  gamekeeper_crashes_total: {
    type: 'counter',
    help: 'Servers whose end counts as a crash, by reason.',
    labels: [...build, 'reason'],
  },
  gamekeeper_restarts_total: {
    type: 'counter',
    help: 'Servers replaced because their process ended or was ended for its faults, not because somebody wanted so.',
    labels: build,
  },
  gamekeeper_reconcile_failures_total: {
    type: 'counter',
    help: 'Steps of a build that could not be done and are tried again.',
    labels: build,
  },
  gamekeeper_heartbeats_total: { type: 'counter', help: 'Heartbeats of game servers that were answered.', labels: [] },
  gamekeeper_leader_terms_total: {
    type: 'counter',
    help: 'How often this host has begun to lead.',
    labels: [],
  },
  gamekeeper_webhook_dead_letters_total: {
    type: 'counter',
    help: 'Events that a webhook gave up.',
    labels: [],
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>

export type MetricName = keyof typeof definitions
