/** OpenTelemetry spans for a fleet. Requires the package @opentelemetry/api. */
export type { TracerProviderLike } from './open-telemetry.js'
export { tracedFleet, type TracedFleetOptions } from './traced-fleet.js'
