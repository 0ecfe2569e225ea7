/** The spec of a build as a caller writes it, with `run` in place of a template. */
import type { BuildSpec } from './resources.js'

/**
 * Short form of `template` and `portsToExpose`, for a game that is one program. A build is stored and returned with these two,
 * whose first container has these fields.
 */
export interface RunSpec {
  /** Program and first arguments. Required by the process backend. Default: the image's. */
  readonly command?: readonly string[]
  /** Arguments that follow the command. */
  readonly args?: readonly string[]
  /** Environment variables. `$(NAME)` inserts the value of an earlier one, or of one that the backend sets. */
  readonly env?: Readonly<Record<string, string>>
  /** Required by the Docker and Kubernetes backends, ignored by the process backend. */
  readonly image?: string
  /** Whether the game's standard input is kept open, for `servers.writeStdin`. Default: false. */
  readonly stdin?: boolean
  /** The public ports. Default: none. */
  readonly ports?: readonly RunPort[]
}

export interface RunPort {
  /** Name by which the game and `allocate` look up the port. */
  readonly name?: string
  /** The number by which the build calls the port, and on which a game in a container listens. */
  readonly port: number
  /** Default: TCP. */
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP'
}

/** A spec as a caller writes it: with `run`, or with `template` and `portsToExpose`. */
export type BuildSpecInput = Omit<BuildSpec, 'portsToExpose' | 'template'> &
  (
    | { readonly run: RunSpec; readonly portsToExpose?: undefined; readonly template?: undefined }
    | (Pick<BuildSpec, 'portsToExpose' | 'template'> & { readonly run?: undefined })
  )
