/** How large builds, requests and reports from games may be, and how sizes are counted. Pure. */

const kibibyte = 1_024

/** The fixed maximum sizes. Bytes are bytes of UTF-8. docs/reference/options.md lists them. */
export const sizeLimits = Object.freeze({
  /** A build's template, as JSON. */
  templateBytes: 256 * kibibyte,
  /** The name of an environment variable. */
  environmentNameBytes: 256,
  /** The value of an environment variable, as written and with its references expanded. */
  environmentValueBytes: 32 * kibibyte,
  /** Names and expanded values of all environment variables of a container. */
  environmentBytes: 128 * kibibyte,
  /** Each string in `command` and `args`, as written and with its references expanded. */
  argumentBytes: 64 * kibibyte,
  /** All strings in `command` and `args` of a container, expanded. */
  commandBytes: 128 * kibibyte,
  /** The working directory of a container. */
  pathBytes: 4 * kibibyte,
  /** The image of a container. */
  imageBytes: kibibyte,
  /** A line for a game's standard input, without its line break: the longest that a terminal and a pipe take at once. */
  stdinLineBytes: 4 * kibibyte - 1,
  /** The name of a container or a port. */
  nameBytes: 253,
  /** A key in `buildMetadata`. */
  metadataKeyBytes: 256,
  /** All keys and values in `buildMetadata`. */
  metadataBytes: 64 * kibibyte,
  /** Number of characters in a sessionID, as `length` counts them: at most 384 bytes. */
  sessionIDLength: 128,
  /** The cookie of a session, which every heartbeat answer repeats. */
  sessionCookieBytes: 32 * kibibyte,
  /** The id of a player. */
  playerIDBytes: 256,
  /** Number of initial players of a session. */
  initialPlayers: 1_000,
  /** The ids of all initial players of a session, which every heartbeat answer repeats. */
  initialPlayersBytes: 64 * kibibyte,
  /** Number of sessions that a server runs at the same time. */
  sessionsPerServer: 1_000,
  /** Number of seats of a session that can be held at once. */
  heldSeats: 1_000,
  /** The ids of all players for whom seats of a session are held. */
  heldSeatsBytes: 64 * kibibyte,
  /** Number of sessions that a search for room returns. */
  sessionsWithRoom: 1_000,
  /** Number of sessions that a game can report as running, and as ended. */
  reportedSessions: 2_000,
  /** Number of players that a game can report. */
  reportedPlayers: 5_000,
  /** The ids of all players that a game can report. */
  reportedPlayersBytes: 192 * kibibyte,
  /** Number of labels of a server. */
  labels: 64,
  /** All keys and texts of a server's annotations. */
  annotationsBytes: 16 * kibibyte,
  /** Number of counters, and of lists, that a build declares. */
  counters: 16,
  /** Capacity of a list. */
  listCapacity: 1_000,
  /** A value in a list. */
  listValueBytes: 256,
  /** All values in all lists of a server. */
  listsBytes: 64 * kibibyte,
  /** Number of allocations in a batch. */
  batch: 100,
  /** Number of selectors in an allocation. */
  selectors: 8,
  /** Number of builds in a selector. */
  selectorBuilds: 16,
  /** Number of labels of a build. */
  buildLabels: 16,
  /** Number of builds with the labels that a selector names. */
  labelledBuilds: 100,
  /** Number of labels, of label expressions, of counters and of lists in a selector. */
  selectorConditions: 16,
  /** Number of values in a label expression. */
  selectorValues: 32,
  /** Number of conditions of an allocation's selectors, times the number of servers with different data that they are checked against. */
  selectorChecks: 250_000,
  /** A message, reason or list in an event, a condition, a status or an error. Longer ones are cut. */
  messageBytes: 2 * kibibyte,
})

/** Returns the number of bytes that the text takes in UTF-8. A lone surrogate takes 3, like U+FFFD, which replaces it. */
export function utf8Bytes(text: string): number {
  let bytes = text.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) continue
    bytes += unit < 0x800 ? 1 : 2
    // The two units of a surrogate pair take four bytes.
    if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(i + 1))) i++
  }
  return bytes
}

/** True if the text takes at most `maxBytes` in UTF-8. Reads the text only if its length does not decide that. */
export function fitsBytes(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return false
  return 3 * text.length <= maxBytes || utf8Bytes(text) <= maxBytes
}

/** Cuts a text to `maxBytes`, at least 3, and never within a character. A text that was cut ends with "…". */
export function cutText(text: string, maxBytes: number): string {
  if (fitsBytes(text, maxBytes)) return text
  const ellipsis = '…'
  let left = maxBytes - utf8Bytes(ellipsis)
  let end = 0
  for (const character of text) {
    left -= utf8Bytes(character)
    if (left < 0) break
    end += character.length
  }
  return text.slice(0, end) + ellipsis
}

/** Cuts a message that people read to `sizeLimits.messageBytes`. */
export function cutMessage(text: string): string {
  return cutText(text, sizeLimits.messageBytes)
}

/** Returns the first entries of a list in an event, as many as `sizeLimits.messageBytes` allows. */
export function cutList(list: readonly string[]): readonly string[] {
  let left = sizeLimits.messageBytes
  const end = list.findIndex((text) => (left -= utf8Bytes(text)) < 0)
  return end < 0 ? list : list.slice(0, end)
}

/**
 * Returns the players that are kept of those that a game reports: in their order, without ids that are too long, as many as
 * the limits allow. Returns the same array if that is all of them.
 */
export function keptPlayers(players: readonly string[]): readonly string[] {
  const { playerIDBytes, reportedPlayers, reportedPlayersBytes } = sizeLimits
  let left = reportedPlayersBytes
  const kept: string[] = []
  for (const player of players) {
    if (!fitsBytes(player, playerIDBytes)) continue
    left -= utf8Bytes(player)
    if (left < 0 || kept.length === reportedPlayers) break
    kept.push(player)
  }
  return kept.length === players.length ? players : kept
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}
