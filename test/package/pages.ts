/** Reads the documentation: its pages, and the tables, programs, links and headings on them. */
import { filesUnder, read } from './sources.js'

export const pages = ['README.md', 'CHANGELOG.md', ...filesUnder('docs').filter((file) => file.endsWith('.md'))]

/** The rows of the table whose first heading is `heading`, as cells. Empty if the page has no such table. */
export function table(page: string, heading: string): readonly (readonly string[])[] {
  const rows = new RegExp(`^\\| ${heading} \\|.*\n\\| ?-.*\n((?:\\|.*\n?)+)`, 'm').exec(read(page))?.[1]
  return (rows?.trimEnd().split('\n') ?? []).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

/** The first text in backquotes. */
export function code(cell = ''): string {
  return /`([^`]+)`/.exec(cell)?.[1] ?? ''
}

/** The code blocks of a language. */
export function blocks(page: string, language: string): readonly string[] {
  const pattern = new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm')
  return [...read(page).matchAll(pattern)].map((match) => match[1] ?? '')
}

/** The targets of relative links. */
export function links(page: string): readonly string[] {
  const targets = [...withoutCode(read(page)).matchAll(/\]\(([^)]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

/** The anchors that GitHub gives the headings of a page. */
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
