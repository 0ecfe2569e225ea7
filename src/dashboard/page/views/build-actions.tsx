/** What an operator does to a build: scale, drain, resume, delete. Only what the caller may do is offered. */
import { useSignal } from '@preact/signals'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import type { OperationName } from '../../../http/operations.js'
import { rights } from '../data/access.js'
import { begun } from '../changes/begun.js'
import {
  deleteConsequence,
  drainConsequence,
  type Scale,
  scaleChange,
  scaleConsequence,
  scaleProblem,
} from '../data/consequences.js'
import { fleet, model, stats } from '../data/live.js'
import { countsOf, playersOf } from '../data/model.js'
import { go, linkTo } from '../data/router.js'
import { Action } from '../parts/action.js'

export function BuildActions({ build }: { readonly build: GameServerBuild }) {
  const may = (name: OperationName) => rights.may(name, build.metadata)
  const isDraining = build.status.conditions?.some(({ type }) => type === 'Draining') ?? false
  return (
    <div class="actions">
      {may('patchBuild') ? <ScaleAction build={build} /> : null}
      {isDraining && may('resumeBuild') ? <ResumeAction build={build} /> : null}
      {!isDraining && may('drainBuild') ? <DrainAction build={build} /> : null}
      {may('deleteBuild') ? <DeleteAction build={build} /> : null}
      {may('patchBuild') ? null : <span class="tag">read only</span>}
    </div>
  )
}

interface BuildProps {
  readonly build: GameServerBuild
}

function playersIn({ metadata }: GameServerBuild): number {
  const key = keyOf(metadata)
  return stats.value?.builds.find((one) => keyOf(one.build) === key)?.players ?? playersOf(model.value, key)
}

interface ScaleActionProps extends BuildProps {
  readonly name?: string
  /** On the button, in place of the name. */
  readonly label?: string
  /** What the form begins with, besides the spec. */
  readonly begin?: Partial<Scale>
}

function ScaleAction({ build: { metadata, spec }, name = 'Scale', label, begin }: ScaleActionProps) {
  const standingBy = useSignal('')
  const max = useSignal('')
  /** Somebody else may change the spec while the form is open. */
  const opened = useSignal<Scale>(spec)
  const wanted = { standingBy: numberIn(standingBy.value), max: numberIn(max.value) }
  const change = scaleChange(opened.value, wanted)
  const problem = scaleProblem(wanted) ?? (Object.keys(change).length === 0 ? 'Nothing has changed yet.' : undefined)
  const fields = [
    ['Standing by', standingBy, wanted.max || opened.value.max],
    ['Max', max, Math.max(10, 2 * opened.value.max)],
  ] as const
  return (
    <Action
      name={name}
      label={label}
      verb="Scale"
      problem={problem}
      run={() => fleet.builds.patch(metadata, change)}
      onOpen={() => {
        opened.value = spec
        standingBy.value = String(begin?.standingBy ?? spec.standingBy)
        max.value = String(begin?.max ?? spec.max)
      }}
    >
      <div class="fields">
        {fields.map(([field, value, most]) => {
          const onInput = (event: InputEventOn) => (value.value = event.currentTarget.value)
          return (
            <div key={field} class="field">
              <label>
                {field}
                <input type="number" min="0" value={value} onInput={onInput} />
              </label>
              <input
                type="range"
                aria-label={`${field}, from 0 to ${most}`}
                min="0"
                max={most}
                value={value}
                onInput={onInput}
              />
            </div>
          )
        })}
      </div>
      {problem === undefined ? <p>{scaleConsequence(countsOf(model.value, keyOf(metadata)), wanted)}</p> : null}
    </Action>
  )
}

interface InputEventOn {
  readonly currentTarget: HTMLInputElement
}

interface ScaleStepProps extends BuildProps {
  readonly field: keyof Scale
  readonly by: 1 | -1
}

const fieldWords = { standingBy: 'standing by', max: 'max' } as const

/** A button beside a number that asks for one more, or one less. */
export function ScaleStep({ build, field, by }: ScaleStepProps) {
  const wanted = build.spec[field] + by
  if (!rights.may('patchBuild', build.metadata) || wanted < 0) return null
  const name = `Scale ${fieldWords[field]} ${by > 0 ? 'up' : 'down'} to ${wanted}`
  return <ScaleAction build={build} name={name} label={by > 0 ? '+' : '−'} begin={{ [field]: wanted }} />
}

/** An empty field is no number. */
function numberIn(text: string): number {
  return text.trim() === '' ? Number.NaN : Number(text)
}

function DrainAction({ build }: BuildProps) {
  const endsMatches = useSignal(false)
  const counts = countsOf(model.value, keyOf(build.metadata))
  const active = endsMatches.value ? 'terminate' : 'wait'
  return (
    <Action
      name="Drain"
      verb="Drain"
      run={() =>
        begun(`The drain of ${build.metadata.name} has failed`, fleet.builds.drain(build.metadata, { active }))
      }
    >
      <label class="check">
        <input
          type="checkbox"
          checked={endsMatches}
          onChange={(event) => (endsMatches.value = event.currentTarget.checked)}
        />
        End running matches, too
      </label>
      <p>{drainConsequence(counts, playersIn(build), endsMatches.value)}</p>
    </Action>
  )
}

function ResumeAction({ build: { metadata, spec } }: BuildProps) {
  return (
    <Action name="Resume" verb="Resume" run={() => fleet.builds.resume(metadata)}>
      <p>{scaleConsequence(countsOf(model.value, keyOf(metadata)), spec)}</p>
    </Action>
  )
}

function DeleteAction({ build }: BuildProps) {
  const typed = useSignal('')
  const { name } = build.metadata
  const remove = async () => {
    await begun(`${name} is not deleted`, fleet.builds.delete(build.metadata))
    go(linkTo.overview)
  }
  return (
    <Action
      name="Delete"
      verb={`Delete ${name}`}
      isDangerous
      problem={typed.value === name ? undefined : `Type ${name} to confirm.`}
      run={remove}
      onOpen={() => (typed.value = '')}
    >
      <p>{deleteConsequence(countsOf(model.value, keyOf(build.metadata)), playersIn(build))}</p>
      <label>
        Name of the build
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
      </label>
    </Action>
  )
}
