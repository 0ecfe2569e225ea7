/** The paths of the SDK configuration inside the container, and the archive that copies it there. Pure. */
import { sdkConfigFile, type SdkConfigInput } from '../../../src/rules/game/sdk-config.js'
import { tarOf } from './tar.js'

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
