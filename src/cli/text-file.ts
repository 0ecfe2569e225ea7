/** Reads text that people wrote with any editor or shell. */
import { UsageError } from '../config/usage-error.js'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Decodes UTF-8, with or without a byte order mark. Throws UsageError, naming the file, for any other encoding. */
export function decodeText(bytes: Uint8Array, name: string): string {
  const [first, second] = bytes
  const hasUtf16Mark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  // Without a mark, every other byte of ASCII text is 0.
  if (hasUtf16Mark || (bytes.length > 1 && (first === 0 || second === 0))) {
    throw new UsageError(
      `${name} is UTF-16, as > of Windows PowerShell writes it; save it as UTF-8: … | Out-File -Encoding utf8 <file>`,
    )
  }
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new UsageError(`${name} holds bytes that are not UTF-8; save it as UTF-8`, { cause: error })
  }
}
