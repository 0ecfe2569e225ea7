/** Reads the documentation: the pages and their tables, programs, links and headings. */
import { filesUnder, read } from './sources.js'

export const pages = ['README.md', 'CHANGELOG.md', ...filesUnder('docs').filter((file) => file.endsWith('.md'))]

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

/** Returns the code blocks in this language. */
export function blocks(page: string, language: string): readonly string[] {
  const pattern = new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm')
  return [...read(page).matchAll(pattern)].map((match) => match[1] ?? '')
}

/** Returns the targets of all relative links on the page. */
export function links(page: string): readonly string[] {
  const targets = [...withoutCode(read(page)).matchAll(/\]\(([^)]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

/** Returns the anchors that GitHub generates for the headings of a page. */
export function anchors(page: string): readonly string[] {
  return [...withoutCode(read(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```$/gm, '')
}
