/** Pods and nodes as the API server shows them: only what is read of them here. Everything may be missing. */
import { isObject } from '../../src/rules/problem.js'

export interface ObjectMeta {
  readonly name?: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  /** RFC 3339: when it was asked for, and its grace period. */
  readonly deletionTimestamp?: string
  readonly deletionGracePeriodSeconds?: number
}

export interface Described {
  readonly metadata?: ObjectMeta
}

export interface ContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string }
  readonly running?: { readonly startedAt?: string }
  readonly terminated?: {
    readonly exitCode?: number
    readonly reason?: string
    readonly message?: string
    readonly finishedAt?: string
  }
}

export interface ContainerStatus {
  readonly name?: string
  readonly state?: ContainerState
}

export interface PodCondition {
  readonly type?: string
  readonly status?: string
  readonly reason?: string
  readonly message?: string
}

export interface Pod extends Described {
  readonly spec?: {
    readonly nodeName?: string
    readonly hostNetwork?: boolean
    readonly containers?: readonly {
      readonly name?: string
      readonly resources?: { readonly limits?: Readonly<Record<string, string>> }
    }[]
    readonly volumes?: readonly { readonly name?: string; readonly secret?: { readonly secretName?: string } }[]
  }
  readonly status?: {
    readonly phase?: string
    readonly hostIP?: string
    readonly reason?: string
    readonly message?: string
    readonly conditions?: readonly PodCondition[]
    readonly initContainerStatuses?: readonly ContainerStatus[]
    readonly containerStatuses?: readonly ContainerStatus[]
  }
}

export interface Taint {
  readonly key?: string
  readonly value?: string
  readonly effect?: string
}

export interface Node extends Described {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] }
  readonly status?: {
    readonly addresses?: readonly { readonly type?: string; readonly address?: string }[]
    readonly conditions?: readonly PodCondition[]
  }
}

/** The API server keeps to its own schema: that it is an object of this kind is all that has to be found out. */
export function isPod(value: unknown): value is Pod {
  return isDescribed(value)
}

export function isNode(value: unknown): value is Node {
  return isDescribed(value)
}

function isDescribed(value: unknown): boolean {
  return isObject(value) && isObject(value['metadata']) && (value['spec'] === undefined || isObject(value['spec']))
}
