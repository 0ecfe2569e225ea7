/**
 * Every metric: name, type, labels and meaning. docs/reference/metrics.md contains the same table; a test compares the two.
 * Pure.
 */

export interface MetricDefinition {
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
  /** Upper bounds for a histogram's buckets, in seconds. */
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
    help: 'Desired number of servers standing by (spec.standingBy, or what the scaling policies have decided).',
    labels: build,
  },
  gamekeeper_build_max: { type: 'gauge', help: 'Maximum number of servers (spec.max).', labels: build },
  gamekeeper_build_healthy: { type: 'gauge', help: '1 while the build is Healthy, else 0.', labels: build },
  gamekeeper_build_ready: {
    type: 'gauge',
    help: '1 while all servers that should stand by do so with the current template and nothing keeps the build from starting more, else 0.',
    labels: build,
  },
  gamekeeper_build_condition: {
    type: 'gauge',
    help: '1 while the build has a condition of this type. Absent otherwise.',
    labels: [...build, 'type'],
  },
  gamekeeper_problem: {
    type: 'gauge',
    help: '1 for each problem of `gamekeeper status`, by kind and severity: down, degraded or drained. Absent otherwise. Without a build: of the host.',
    labels: [...build, 'kind', 'severity'],
  },
  gamekeeper_template_servers: {
    type: 'gauge',
    help: 'Servers that are not terminating, by template: current or earlier.',
    labels: [...build, 'template'],
  },
  gamekeeper_players: { type: 'gauge', help: 'Players connected to the servers of a build.', labels: build },
  gamekeeper_waiting_callers: {
    type: 'gauge',
    help: 'Allocations waiting for a server of the build.',
    labels: build,
  },
  gamekeeper_leader: { type: 'gauge', help: '1 while this host is the leader, else 0.', labels: [] },
  gamekeeper_can_lead: {
    type: 'gauge',
    help: '0 if this host could neither lead nor find out who does for a minute, else 1.',
    labels: [],
  },
  gamekeeper_store_up: { type: 'gauge', help: '1 while the store answers, else 0.', labels: [] },
  gamekeeper_backend_up: { type: 'gauge', help: '1 while the backend answers, else 0.', labels: [] },
  gamekeeper_allocation_duration_seconds: {
    type: 'histogram',
    help: 'Duration of allocations, including the wait for a server, by outcome: ok or the error code.',
    labels: ['outcome'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  gamekeeper_reconcile_duration_seconds: {
    type: 'histogram',
    help: 'Duration of one reconcile of a build.',
    labels: [],
    buckets: [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1],
  },
  gamekeeper_backend_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of backend calls: create, destroy, list, prepare, protect, unprotect, find, stdin or exec. Outcome: ok or failed.',
    labels: ['operation', 'outcome'],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  },
  gamekeeper_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of store calls: get, list, create, update or delete on builds, servers or details. Outcome: ok, conflict or failed.',
    labels: ['collection', 'operation', 'outcome'],
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5],
  },
  gamekeeper_forwarded_duration_seconds: {
    type: 'histogram',
    help: 'Duration of requests forwarded to the leader, until its answer begins. Kind: call or heartbeat, which the leader may park. Outcome: ok, unsent (not reached) or unknown (connection broke).',
    labels: ['kind', 'outcome'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  gamekeeper_servers_ended_total: {
    type: 'counter',
    help: 'Servers that ended, by reason.',
    labels: [...build, 'reason'],
  },
  gamekeeper_crashes_total: {
    type: 'counter',
    help: 'Servers whose end counted as a crash, by reason.',
    labels: [...build, 'reason'],
  },
  gamekeeper_restarts_total: {
    type: 'counter',
    help: 'Servers that ended on their own or for a fault, rather than by scaling, an update or an operator.',
    labels: build,
  },
  gamekeeper_reconcile_failures_total: {
    type: 'counter',
    help: 'Server steps that failed and will be retried.',
    labels: build,
  },
  gamekeeper_requests_total: {
    type: 'counter',
    help: 'Requests to the HTTP APIs, counted by the host that received them, also if another one carried them out. Outcome: ok or the error code.',
    labels: ['operation', 'outcome'],
  },
  gamekeeper_heartbeats_total: { type: 'counter', help: 'Heartbeats answered.', labels: [] },
  gamekeeper_leader_terms_total: {
    type: 'counter',
    help: 'Leadership terms of this host.',
    labels: [],
  },
  gamekeeper_webhook_dead_letters_total: {
    type: 'counter',
    help: 'Events that a webhook failed to deliver and dropped.',
    labels: [],
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>

export type MetricName = keyof typeof definitions
