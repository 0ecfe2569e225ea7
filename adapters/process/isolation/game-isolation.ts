/**
 * Which user each game runs as, and the helper programs that restrict it. Checks at the start that the chosen isolation works
 * on this machine.
 */
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { release } from 'node:os'
import type { IsolationStatus } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { ownDescriptors } from '../../../src/platform/own-descriptors.js'
import { type isolations, type ResolvedProcessOptions, resolveProcessOptions } from '../options.js'
import {
  type CgroupLimits,
  type Controller,
  limitsHere,
  missing,
  missingForSystemd,
  serviceCgroups,
} from './cgroups.js'
import { cannot, helperProgram, systemPath } from './programs.js'
import { type GameView, requireSystemd, restrictions, runArguments, tryService, type UnitOfRun } from './systemd.js'
import { type GameUser, readUser, requireRoot } from './users.js'

type IsolationOptions = Pick<ResolvedProcessOptions, 'isolation' | 'userIDs' | 'limits' | 'directory' | 'readOnlyPaths'>

/** Of servers that have a user of their own. */
const defaultTasks = 4096

const unsharedMounts = ['--mount', '--propagation', 'private', '--']
/** Each process sees only the processes of its own user. */
const mountProc = 'mount -t proc -o hidepid=invisible,nosuid,nodev,noexec proc /proc || exit 125; exec "$@"'

export class GameIsolation {
  readonly #options: IsolationOptions
  readonly #runAs: GameUser | undefined
  #next: number

  /** Throws `invalid`, naming the option and what is missing. */
  constructor(options: IsolationOptions & Pick<ResolvedProcessOptions, 'runAs'>) {
    const { isolation, userIDs, runAs } = options
    this.#options = options
    this.#next = randomInt(userIDs.first, userIDs.last + 1)
    if (isolation === 'user') requireRoot("isolation 'user'")
    if (isolation === 'systemd') requireSystemd(this.option)
    if (runAs) requireRoot('runAs')
    this.#runAs = runAs && readUser(runAs)
    const { tasks } = options.limits
    if (tasks !== undefined && !this.#givesUsers) {
      const why = this.#missing('pids')
      if (why !== undefined) throw cannot('limits.tasks', `${why}; isolation 'user' needs none`)
    }
    this.#check()
  }

  /** What holds for the servers that are started from now on. */
  status(): IsolationStatus {
    const { isolation: mode, limits } = this.#options
    const { memory, pids } = limitsHere()
    const why = this.#missing('memory')
    const perProcess = limits.memoryBytes === undefined ? 'not limited' : `${limits.memoryBytes} bytes per process`
    const own = `at most ${this.#tasks} per server, by ${this.isService ? 'systemd' : 'user'}`
    const shared = limits.tasks === undefined ? 'not limited' : `at most ${limits.tasks} ${pids}`
    return Object.freeze({
      mode,
      memory: why === undefined ? (this.isService ? 'per server, by systemd' : memory) : `${perProcess} (${why})`,
      pids: this.#givesUsers || this.isService ? own : shared,
    })
  }

  /** Whether games run as other users than this host. */
  get changesUser(): boolean {
    return this.#runAs !== undefined || this.#givesUsers
  }

  /**
   * Whether each game and its supervisor are a service of systemd, instead of child processes of this host. Such games see only some of the
   * machine's files.
   */
  get isService(): boolean {
    return this.#options.isolation === 'systemd'
  }

  /** Whether this host can enforce the memory limit of a template. */
  get limitsMemory(): boolean {
    return this.#missing('memory') === undefined
  }

  /** Whether games reach their folders by the host's path, so that other users must be let through. */
  get needsPassage(): boolean {
    return this.changesUser && !this.isService
  }

  /** Whether games have home and temporary directories of their own. */
  get ownsFolders(): boolean {
    return this.changesUser || this.isService
  }

  /** Undefined if games run as the user of this host. Throws `unavailable` if all user ids are held. */
  userOfNext(held: ReadonlySet<number>): GameUser | undefined {
    const { userIDs } = this.#options
    if (!this.#givesUsers) return this.#runAs
    // An id is reused as late as possible, because its last server may have left files somewhere.
    for (let i = userIDs.first; i <= userIDs.last; i++) {
      const uid = this.#next
      this.#next = uid === userIDs.last ? userIDs.first : uid + 1
      if (!held.has(uid)) return { uid, gid: uid, own: true }
    }
    throw new FleetError('unavailable', `all user ids from ${userIDs.first} to ${userIDs.last} are in use by servers`)
  }

  /**
   * The limits of a server as a whole, in a cgroup that this host creates. `memoryBytes` is that of its template, if any; the lower of
   * the two holds.
   */
  cgroupLimits(memoryBytes: number | undefined): CgroupLimits {
    const { limits } = this.#options
    if (this.isService) return {}
    return {
      memoryBytes: this.#memoryLimit(memoryBytes),
      ...(limits.tasks !== undefined && !this.#givesUsers && { tasks: limits.tasks }),
    }
  }

  /** The arguments of `systemd-run` for a server. `memoryBytes` as above. */
  serviceArguments(
    view: GameView,
    memoryBytes: number | undefined,
    run: Omit<UnitOfRun, 'cgroups'>,
  ): readonly string[] {
    return [...this.#restrictions(view, memoryBytes), ...runArguments({ ...run, cgroups: serviceCgroups(run.mark) })]
  }

  /**
   * The helper programs that stand before a game's program, or before a command that is run beside the game, which no service limits. Throws
   * `invalid` if one is missing.
   */
  helpers(user: GameUser | undefined, isBeside = false): readonly string[] {
    const { isolation } = this.#options
    const limited = this.isService && !isBeside ? [] : this.#limitArguments()
    return [
      ...(isolation === 'user' ? [this.#program('unshare'), ...unsharedMounts, '/bin/sh', '-c', mountProc, 'sh'] : []),
      ...(limited.length > 0 ? [this.#program('prlimit'), ...limited, '--'] : []),
      ...(user
        ? [this.#program('setpriv'), `--reuid=${user.uid}`, `--regid=${user.gid}`, ...withoutPrivileges, '--']
        : []),
    ]
  }

  /** Whether each server runs as a user of its own. */
  get #givesUsers(): boolean {
    const { isolation } = this.#options
    return isolation === 'user' || (this.isService && this.#runAs === undefined)
  }

  /** Limits that no cgroup holds. The system counts tasks per user. */
  #limitArguments(): readonly string[] {
    const { memoryBytes, openFiles } = this.#options.limits
    return [
      ...(memoryBytes === undefined || this.limitsMemory ? [] : [`--data=${memoryBytes}`]),
      ...(this.#givesUsers ? [`--nproc=${this.#tasks}`] : []),
      ...(openFiles === undefined ? [] : [`--nofile=${openFiles}`]),
    ]
  }

  get #tasks(): number {
    return this.#options.limits.tasks ?? defaultTasks
  }

  /** The lower of the template's limit and this host's, if it can be enforced. */
  #memoryLimit(ofTemplate: number | undefined): number | undefined {
    const limits = [ofTemplate, this.#options.limits.memoryBytes].filter((bytes) => bytes !== undefined)
    return limits.length > 0 && this.limitsMemory ? Math.min(...limits) : undefined
  }

  #missing(controller: Controller): string | undefined {
    return this.isService ? missingForSystemd(controller) : missing(controller)
  }

  #restrictions(view: GameView, ofTemplate: number | undefined): readonly string[] {
    const { directory, readOnlyPaths, limits } = this.#options
    return restrictions({
      ...view,
      directory,
      readOnly: [...readOnlyPaths, ...view.readOnly],
      memoryBytes: this.#memoryLimit(ofTemplate),
      dataBytes: this.limitsMemory ? undefined : limits.memoryBytes,
      tasks: this.#tasks,
      openFiles: limits.openFiles,
    })
  }

  #program(name: string): string {
    return helperProgram(name, this.option)
  }

  /** The option that helpers are for, as in error messages. */
  get option(): string {
    const { isolation } = this.#options
    if (isolation !== 'none') return `isolation '${isolation}'`
    return this.#runAs ? 'runAs' : 'limits'
  }

  /** Runs a command as a game would be. */
  #check(): void {
    if (this.isService) {
      this.#checkService()
      return
    }
    const [option, hidesProcesses] = [this.option, this.#options.isolation === 'user']
    // Older kernels would hide the processes from everybody on this machine.
    if (hidesProcesses && !(kernelVersion() >= 5.08)) throw cannot(option, 'it needs Linux 5.8 or later')
    const helpers = this.helpers(this.userOfNext(new Set()))
    if (helpers.length === 0) return
    const [program, ...args] = [...helpers, '/bin/sh', '-c', hidesProcesses ? '[ ! -e /proc/1 ]' : ':']
    const result = spawnSync(...ownDescriptors(program ?? '', args), {
      env: { PATH: systemPath },
      encoding: 'utf8',
      timeout: 20_000,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    if (result.status === 0) return
    const output = result.stderr?.trim()
    throw cannot(option, output ? output : `a test ended with ${result.error?.message ?? String(result.status)}`)
  }

  /** systemd starts services even if the kernel or a container around it does not let it restrict them. */
  #checkService(): void {
    const view = { writable: [], readOnly: [], ownReadOnly: [], workingDir: '/' }
    const command = [...this.helpers(this.userOfNext(new Set())), '/bin/sh', '-c', restricted]
    const why = tryService(this.#restrictions(view, undefined), command, this.option)
    if (why !== undefined) throw cannot(this.option, `${why}; the journal of systemd may say more`)
  }
}

/** Fails unless a game sees neither the machine's processes nor its files. */
const restricted = `[ ! -e /proc/1 ] || { echo "processes are not hidden" >&2; exit 1; }
[ ! -e /run/systemd/system ] || { echo "files are not hidden" >&2; exit 1; }`

const withoutPrivileges = ['--clear-groups', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all']

/** 5.8 is 5.08, and 5.15 is 5.15. */
function kernelVersion(): number {
  const [major = 0, minor = 0] = release().split('.').map(Number)
  return major + minor / 100
}

/**
 * For each `isolation` of `processBackend`, why this machine cannot provide it to this host; undefined if it can. Takes some
 * hundred milliseconds, because it runs a command in each.
 */
export function isolationsHere(): Readonly<Record<(typeof isolations)[number], string | undefined>> {
  return { none: undefined, user: whyNot('user'), systemd: whyNot('systemd') }
}

function whyNot(isolation: (typeof isolations)[number]): string | undefined {
  try {
    provide(isolation)
    return undefined
  } catch (error) {
    return messageOf(error).replace(/^.* cannot be used here: /, '')
  }
}

function provide(isolation: (typeof isolations)[number]): GameIsolation {
  return new GameIsolation(resolveProcessOptions({ isolation }))
}
