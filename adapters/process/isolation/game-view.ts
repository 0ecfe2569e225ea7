/** What a game with a view of its own sees of the machine's files, beside the system's. Resolves links. */
import { realpathSync } from 'node:fs'
import type { InstanceFiles } from '../files/instance-files.js'
import type { InstanceRecord } from '../files/record.js'
import type { GameIsolation } from './game-isolation.js'
import { type GameView, installPaths, isWithin, unsafePath } from './systemd-unit.js'

export interface GameViewInput {
  readonly files: InstanceFiles
  readonly record: InstanceRecord
  /** As in the template. Without it, the game starts in its home. */
  readonly workingDir: string | undefined
  /** Absolute path of the game's program. */
  readonly program: string
}

export function gameView({ files, record: { ref }, workingDir, program }: GameViewInput): GameView {
  const { logs, certificates, sharedContent } = files.foldersOf(ref)
  const { home, temporary } = files.ownFoldersOf(ref)
  return {
    writable: [logs, certificates, sharedContent, home, temporary],
    temporary,
    ownReadOnly: [files.sdkConfigOf(ref)],
    readOnly: installPaths(workingDir, [program, realpathSync(program)]),
    workingDir: workingDir ?? home,
  }
}

/** Why the game cannot have this view; undefined if it can, or if it has none of its own. */
export function whyNotVisible(
  view: GameView,
  { directory }: InstanceFiles,
  isolation: GameIsolation,
): string | undefined {
  if (!isolation.isService) return undefined
  const hidden = view.readOnly.find((path) => isWithin(path, directory))
  if (hidden !== undefined) {
    return `${hidden} is inside processBackend's directory ${directory}, which ${isolation.option} hides from games`
  }
  return unsafePath([...view.readOnly, ...view.writable])
}
