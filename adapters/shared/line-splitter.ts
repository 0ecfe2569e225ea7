/**
 * Divides the output of a game into lines as it arrives. Takes linear time and a bounded amount of memory, also if the game writes
 * no newline at all: a line that is too long is divided into pieces.
 */

/** A line, or part of a line that is longer than the limit. */
export interface LinePiece {
  readonly text: string
  /** False for a part other than the first. */
  readonly startsLine: boolean
  /** False for a part other than the last, and for a last line without a newline. */
  readonly endsLine: boolean
}

export const maxLineBytes = 1024 * 1024
/** How far before the limit a line may be divided so that no word is. Longer than any session host id. */
const maxWordBytes = 1_024
const initialBytes = 4 * 1024
const newline = 10
const carriageReturn = 13

export class LineSplitter {
  /** The bytes of the current line that have not been returned yet, at the start of a larger buffer. */
  #pending = Buffer.alloc(initialBytes)
  #length = 0
  #startsLine = true

  /** Returns the lines that the chunk completes. The chunk may be reused afterwards. */
  push(chunk: Buffer): readonly LinePiece[] {
    const pieces: LinePiece[] = []
    let from = 0
    let end = chunk.indexOf(newline)
    while (from < chunk.length) {
      const until = Math.min(end < 0 ? chunk.length : end, from + maxLineBytes - this.#length)
      this.#append(chunk, from, until)
      from = until
      if (from === end) {
        pieces.push(this.#take(this.#length, true))
        from++
        end = chunk.indexOf(newline, from)
      } else if (from < chunk.length) pieces.push(this.#take(this.#endOfPiece(), false))
    }
    return pieces
  }

  /** Whether the last line has no newline so far. */
  get hasRest(): boolean {
    return this.#length > 0
  }

  /** Returns the last line if it has no newline. */
  rest(): readonly LinePiece[] {
    return this.#length > 0 ? [this.#take(this.#length, false)] : []
  }

  #append(chunk: Buffer, from: number, until: number): void {
    const length = this.#length + until - from
    if (length > this.#pending.length) {
      const larger = Buffer.alloc(Math.min(Math.max(length, 2 * this.#pending.length), maxLineBytes))
      this.#pending.copy(larger, 0, 0, this.#length)
      this.#pending = larger
    }
    chunk.copy(this.#pending, this.#length, from, until)
    this.#length = length
  }

  #take(length: number, endsLine: boolean): LinePiece {
    const startsLine = this.#startsLine
    const isCrlf = endsLine && this.#pending[length - 1] === carriageReturn
    const text = this.#pending.toString('utf8', 0, isCrlf ? length - 1 : length)
    this.#pending.copyWithin(0, length, this.#length)
    this.#length -= length
    this.#startsLine = endsLine
    return { text, startsLine, endsLine }
  }

  /** Returns where to divide a line that is too long: before a word, so that what masks a secret sees all of it. */
  #endOfPiece(): number {
    for (let end = this.#length; end > this.#length - maxWordBytes; end--) {
      if (isSeparator(this.#pending[end - 1] ?? 0)) return end
    }
    // Not between the bytes of a character, which are at most four.
    for (let end = this.#length - 1; end >= this.#length - 3; end--) {
      if ((this.#pending[end] ?? 0) >= 0xc0) return end
    }
    return this.#length
  }
}

/** True for an ASCII character that no word contains. */
function isSeparator(byte: number): boolean {
  return byte < 0x80 && !/[\w.-]/.test(String.fromCharCode(byte))
}
