/** How games behave, well or badly. */

export type GameBehavior =
  /** Becomes ready soon, plays a match and exits with code 0. */
  | 'normal'
  /** Sends heartbeats but never becomes ready. */
  | 'never-ready'
  /** Never sends a heartbeat. */
  | 'silent'
  /** Exits with code 1 soon after it starts. */
  | 'crashes-at-start'
  /** Exits with code 1 soon after it becomes ready. */
  | 'crashes-when-ready'
  /** Exits with code 1 at a random time. */
  | 'crashes'
  /** Exits with code 0 soon after it starts, before it is ready. */
  | 'exits-at-start'
  /** Exits with code 0 without having played a match. */
  | 'exits-idle'
  /** Always reports Unhealthy, like an SDK without a health callback. */
  | 'always-unhealthy'
  /** Reports Healthy first, then Unhealthy. */
  | 'turns-unhealthy'
  /** Alternates between Healthy and Unhealthy, but is never Unhealthy long enough to be terminated. */
  | 'flaky-health'
  /** Sometimes stops sending heartbeats for a while. */
  | 'stalls'
  /** After a heartbeat without an answer, sends none for 30 s or more, like Unity's client. */
  | 'backs-off'
  /** Exits with code 1 if its first heartbeats get no answer, like Java's client. */
  | 'needs-agent'
  /** Ignores Terminate and keeps sending heartbeats until it is killed. */
  | 'ignores-terminate'
  /** Without an SDK: answers no probe from a random time on, while it runs. With a session, it answers again once there are no more faults. */
  | 'hangs'

export const unusualBehaviors: readonly GameBehavior[] = [
  'never-ready',
  'silent',
  'crashes-at-start',
  'crashes',
  'exits-idle',
  'always-unhealthy',
  'turns-unhealthy',
  'flaky-health',
  'stalls',
  'backs-off',
  'needs-agent',
  'ignores-terminate',
]

/** How a game without an SDK behaves instead: it sends nothing, and what it does wrong shows in its answers to probes. */
export function withoutSdk(behavior: GameBehavior): GameBehavior {
  if (behavior === 'silent') return 'never-ready'
  if (behavior === 'always-unhealthy' || behavior === 'turns-unhealthy') return 'hangs'
  return behavior === 'flaky-health' || behavior === 'backs-off' ? 'stalls' : behavior
}
