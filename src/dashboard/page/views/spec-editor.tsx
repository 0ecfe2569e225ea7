/** A build's spec, and its editor, which checks while one types and shows the difference before it applies. */
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { type BuildSpec, keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { rights } from '../data/access.js'
import { type Draft, keepDraft, keptDraft } from '../changes/drafts.js'
import { fleet, model, staleness } from '../data/live.js'
import { countsOf } from '../data/model.js'
import { replaceQuery, route } from '../data/router.js'
import { effectsOf, type Hunk, specHunks, textOf } from '../data/spec-changes.js'
import { checkSpec } from '../data/spec-check.js'
import { CopyButton, Section } from '../parts/parts.js'

export function Spec({ build }: { readonly build: GameServerBuild }) {
  /** Undefined while none is edited. */
  const draft = useSignal<Draft | undefined>(undefined)
  /** From before: the view was left, or the page reloaded. */
  const kept = useSignal(keptDraft(build.metadata))
  const editButton = useRef<HTMLButtonElement>(null)
  const text = textOf(build.spec)
  const edit = (next: Draft | undefined) => {
    const hasEnded = next === undefined && draft.value !== undefined
    draft.value = next
    kept.value = undefined
    keepDraft(build.metadata, next?.text === next?.base ? undefined : next)
    // The button is there again after the next rendering.
    if (hasEnded) requestAnimationFrame(() => editButton.current?.focus())
  }
  const mayEdit = rights.may('applyBuild', build.metadata)
  const isAskedFor = route.value.query['edit'] !== undefined
  // A link that leads to the editor has been followed: another visit of this address begins with the spec.
  useEffect(() => {
    if (!isAskedFor) return
    replaceQuery({})
    if (mayEdit && draft.peek() === undefined) edit(kept.peek() ?? { text, base: text })
  }, [isAskedFor])
  const aside = (
    <div class="actions">
      {mayEdit && draft.value === undefined ? (
        <button type="button" class="small" ref={editButton} onClick={() => edit(kept.value ?? { text, base: text })}>
          {kept.value === undefined ? 'Edit' : 'Continue editing'}
        </button>
      ) : null}
      <CopyButton text={text} name="the spec" />
    </div>
  )
  return (
    <Section title="Spec" aside={aside}>
      {mayEdit && kept.value ? (
        <div class="kept-draft">
          <p>Your last edit of this spec is not applied. It is kept until you sign out or close this tab.</p>
          <button type="button" class="small" onClick={() => edit(undefined)}>
            Discard it
          </button>
        </div>
      ) : null}
      {draft.value === undefined ? (
        <pre class="spec" tabIndex={0} aria-label="Spec">
          {text}
        </pre>
      ) : (
        <Editor build={build} draft={draft.value} edit={edit} />
      )}
    </Section>
  )
}

interface EditorProps {
  readonly build: GameServerBuild
  readonly draft: Draft
  /** Undefined ends the edit. */
  readonly edit: (next: Draft | undefined) => void
}

function Editor({ build, draft: { text, base }, edit }: EditorProps) {
  const box = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => box.current?.focus(), [])
  const failure = useSignal('')
  const isRunning = useSignal(false)
  const checked = checkSpec(text, build)
  const current = textOf(build.spec)
  const changes = checked.ok ? specHunks(build.spec, checked.input.spec) : []
  const isOff = staleness.value !== undefined
  useLeaveWarning(text !== base)
  const problem = checked.ok ? failure.value : checked.problem
  const apply = async (event: Event) => {
    event.preventDefault()
    if (!checked.ok || changes.length === 0 || isOff) return
    isRunning.value = true
    try {
      await fleet.builds.apply(checked.input)
      edit(undefined)
    } catch (error) {
      failure.value = error instanceof Error ? error.message : String(error)
    } finally {
      isRunning.value = false
    }
  }
  return (
    <form class="action" onSubmit={(event) => void apply(event)}>
      {current === base ? null : (
        <p class="problem" role="alert">
          The spec has changed since you began. What you apply replaces all of it: look at what changes below.
        </p>
      )}
      <textarea
        ref={box}
        aria-label="Spec as JSON"
        class="editor"
        rows={18}
        spellcheck={false}
        aria-invalid={!checked.ok}
        value={text}
        onInput={(event) => {
          failure.value = ''
          edit({ text: event.currentTarget.value, base })
        }}
      />
      <div aria-live="polite">
        {problem === '' ? null : <p class="problem">{problem}</p>}
        {checked.ok && changes.length === 0 ? <p class="quiet">Nothing has changed yet.</p> : null}
      </div>
      {!checked.ok || changes.length === 0 ? null : (
        <>
          <h3>What changes</h3>
          {changes.map((hunk, index) => (
            <Change key={index} of={hunk} build={build} after={checked.input.spec} />
          ))}
        </>
      )}
      <div class="actions">
        <button type="submit" class="main" disabled={!checked.ok || changes.length === 0 || isRunning.value || isOff}>
          Apply
        </button>
        <button type="button" onClick={() => edit(undefined)}>
          Cancel
        </button>
      </div>
    </form>
  )
}

interface ChangeProps {
  readonly of: Hunk
  readonly build: GameServerBuild
  readonly after: BuildSpec
}

function Change({ of: { line, fields, lines }, build, after }: ChangeProps) {
  const effects = effectsOf(fields, build, after, countsOf(model.value, keyOf(build.metadata)))
  return (
    <div class="hunk">
      <p>
        <b>{fields.join(', ') || 'layout'}</b> <span class="quiet">line {line}</span>
      </p>
      <pre class="code diff" tabIndex={0} aria-label={`Changes at line ${line}`}>
        {lines.map(({ kind, text }, index) => (
          <span key={index} class={kind}>
            {`${signs[kind]} ${text}\n`}
          </span>
        ))}
      </pre>
      {effects.map((effect) => (
        <p key={effect}>{effect}</p>
      ))}
    </div>
  )
}

const signs = { same: ' ', added: '+', removed: '−' } as const

/** The draft does not outlive the tab. */
function useLeaveWarning(isOn: boolean): void {
  // Ends with the editor. An effect's end may come after the next picture is painted: whoever leaves before it is asked.
  useLayoutEffect(() => {
    if (!isOn) return undefined
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [isOn])
}
