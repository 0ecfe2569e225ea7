/** Reads the documentation: the pages and their tables, programs, links and headings. */
import { filesUnder, read } from './sources.js'

export const pages = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...filesUnder('docs').filter((file) => file.endsWith('.md')),
]

/** Returns the rows, as cells, of the table whose first column is headed `heading`, or none if there is no such table. */
export function table(page: string, heading: string): readonly (readonly string[])[] {
  const rows = new RegExp(`^\\| ${heading} \\|.*\n\\| ?-.*\n((?:\\|.*\n?)+)`, 'm').exec(read(page))?.[1]
  return (rows?.trimEnd().split('\n') ?? []).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

/** Returns the first text in backquotes, or an empty string if there is none. */
export function code(cell = ''): string {
  return /`([^`]+)`/.exec(cell)?.[1] ?? ''
}

export interface Block {
  readonly page: string
  /** The line of the page on which the text begins, from 1. */
  readonly line: number
  /** Empty if the page names none. */
  readonly language: string
  readonly text: string
}

/** Returns all code blocks of a page. */
export function allBlocks(page: string): readonly Block[] {
  const text = read(page)
  return [...text.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map((match) => ({
    page,
    line: text.slice(0, match.index).split('\n').length + 1,
    language: match[1] ?? '',
    text: match[2] ?? '',
  }))
}

/** Returns the code blocks in this language. */
export function blocks(page: string, language: string): readonly string[] {
  return allBlocks(page)
    .filter((block) => block.language === language)
    .map(({ text }) => text)
}

/** The file that a program is to be saved as: its first line is a comment with the name. */
export function fileOf(program: string): string {
  return /^(?:\/\/|#) ([\w.-]+)\n/.exec(program)?.[1] ?? ''
}

/** Returns the targets of all relative links on the page. */
export function links(page: string): readonly string[] {
  const targets = [...withoutCode(read(page)).matchAll(/\]\(([^)]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

/** Returns the anchors that GitHub generates for the headings of a page: the second heading of a name ends with `-1`. */
export function anchors(page: string): readonly string[] {
  const counts = new Map<string, number>()
  return [...withoutCode(read(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
    const count = counts.get(anchor) ?? 0
    counts.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  })
}

function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```$/gm, '')
}
