/** The paths of the SDK configuration inside the container, and the archive that copies it there. Pure. */
import { sdkConfigFile, type SdkConfigInput } from '../../../src/rules/game/sdk-config.js'

const rootFolder = 'gamekeeper'

export const sdkConfigPath = `/${rootFolder}/gsdkConfig.json`

export const sdkFolders: SdkConfigInput['folders'] = Object.freeze({
  logs: `/${rootFolder}/GameLogs`,
  dumps: `/${rootFolder}/GameLogs/Dumps`,
  certificates: `/${rootFolder}/GameCertificates`,
  sharedContent: `/${rootFolder}/GameSharedContent`,
})

/**
 * Files are readable by every user, because the image decides which user runs the game. Folders that games write to are
 * writable.
 */
export function sdkArchive(sdk: SdkConfigInput, nowMs: number): Buffer {
  const folder = (path: string, mode: number) => ({ name: `${path.slice(1)}/`, mode })
  return tarOf(
    [
      folder(`/${rootFolder}`, 0o755),
      folder(sdkFolders.logs, 0o777),
      folder(sdkFolders.dumps, 0o777),
      folder(sdkFolders.certificates, 0o755),
      folder(sdkFolders.sharedContent, 0o777),
      { name: sdkConfigPath.slice(1), mode: 0o644, content: JSON.stringify(sdkConfigFile(sdk), undefined, 2) },
    ],
    nowMs,
  )
}

interface TarEntry {
  /** At most 100 bytes. A folder's name ends with a slash. */
  readonly name: string
  readonly mode: number
  /** Set only for files. */
  readonly content?: string
}

const blockBytes = 512

/** A small tar archive (ustar), only of files and folders with short names. */
export function tarOf(entries: readonly TarEntry[], modifiedAtMs: number): Buffer {
  const blocks = entries.flatMap(({ name, mode, content }) => {
    const bytes = Buffer.from(content ?? '')
    const padding = Buffer.alloc((blockBytes - (bytes.length % blockBytes)) % blockBytes)
    return [header(name, mode, bytes.length, Math.floor(modifiedAtMs / 1000)), bytes, padding]
  })
  // Two empty blocks end the archive.
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)])
}

function header(name: string, mode: number, size: number, modifiedAt: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new RangeError(`file name too long for a tar archive: ${name}`)
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, length: number) =>
    void block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  block.write(name, 0, 'utf8')
  octal(mode, 100, 8)
  octal(0, 108, 8) // owner: root
  octal(0, 116, 8) // group: root
  octal(size, 124, 12)
  octal(modifiedAt, 136, 12)
  block.write('        ', 148, 'latin1') // the checksum field counts as spaces
  block.write(name.endsWith('/') ? '5' : '0', 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}
