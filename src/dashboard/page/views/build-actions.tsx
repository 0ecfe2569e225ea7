/** What an operator does to a build: scale, drain, resume, delete. Only what the caller may do is offered. */
import { standingByOf } from '../../../rules/model/build-status.js'
import { useSignal } from '@preact/signals'
import { keyOf } from '../../../rules/model/resources.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import type { OperationName } from '../../../http/operations.js'
import { rights } from '../data/access.js'
import { begun } from '../changes/begun.js'
import {
  blockedReason,
  deleteConsequence,
  drainConsequence,
  type Matches,
  type Scale,
  scaleChange,
  scaleConsequence,
  scaleProblem,
  stoppedReason,
} from '../data/consequences.js'
import { fleet, model, stats } from '../data/live.js'
import { countsOf, playersOf, sessionCountOf } from '../data/model.js'
import { go, linkTo } from '../data/router.js'
import { plural } from '../data/words.js'
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

function matchesOf({ metadata }: GameServerBuild): Matches {
  const key = keyOf(metadata)
  const counted = stats.value?.builds.find((one) => keyOf(one.build) === key)
  return { sessions: sessionCountOf(model.value, key), players: counted?.players ?? playersOf(model.value, key) }
}

interface ScaleActionProps extends BuildProps {
  readonly name?: string
  /** On the button, in place of the name. */
  readonly label?: string
  /** What the form begins with, besides the spec. */
  readonly begin?: Partial<Scale>
  readonly isSmall?: boolean
}

export function ScaleAction({ build, name = 'Scale', label, begin, isSmall }: ScaleActionProps) {
  const { metadata, spec } = build
  const standingBy = useSignal('')
  const max = useSignal('')
  /** Somebody else may change the spec while the form is open. */
  const kept = { standingBy: standingByOf(build), max: spec.max }
  const opened = useSignal<Scale>(kept)
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
      title={`Scale ${metadata.name}`}
      label={label}
      isSmall={isSmall}
      verb="Scale"
      problem={problem}
      run={() => fleet.builds.patch(metadata, change)}
      onOpen={() => {
        opened.value = kept
        standingBy.value = String(begin?.standingBy ?? kept.standingBy)
        max.value = String(begin?.max ?? kept.max)
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
      {problem === undefined ? (
        <p>{scaleConsequence(countsOf(model.value, keyOf(metadata)), wanted, blockedReason(build))}</p>
      ) : null}
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
  const wanted = (field === 'standingBy' ? standingByOf(build) : build.spec.max) + by
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
      title={`Drain ${build.metadata.name}`}
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
      <p>{drainConsequence(counts, matchesOf(build), endsMatches.value)}</p>
    </Action>
  )
}

interface SizedProps extends BuildProps {
  readonly isSmall?: boolean
}

export function ResumeAction({ build, isSmall }: SizedProps) {
  const { metadata, spec } = build
  return (
    <Action
      name="Resume"
      title={`Resume ${metadata.name}`}
      verb="Resume"
      isSmall={isSmall}
      run={() => fleet.builds.resume(metadata)}
    >
      <p>{scaleConsequence(countsOf(model.value, keyOf(metadata)), spec, stoppedReason(build))}</p>
    </Action>
  )
}

/** For a build that is stopped at its crash limit. */
export function RaiseLimitAction({ build, isSmall }: SizedProps) {
  const { metadata, spec, status } = build
  const limit = useSignal('')
  const wanted = numberIn(limit.value)
  const raised = { spec, status: { ...status, health: 'Healthy' as const } }
  const isEnough = Number.isInteger(wanted) && wanted > status.crashesCount
  return (
    <Action
      name="Raise the limit"
      title={`Raise the crash limit of ${metadata.name}`}
      verb="Raise the limit"
      isSmall={isSmall}
      problem={
        isEnough ? undefined : `Must be a whole number above ${status.crashesCount}, the number of crashes so far.`
      }
      run={() => fleet.builds.update(metadata, { crashesToMarkUnhealthy: wanted })}
      onOpen={() => {
        const before = spec.crashesToMarkUnhealthy ?? status.crashesCount
        limit.value = String(status.crashesCount + Math.max(1, before))
      }}
    >
      <label>
        Crashes until the build is stopped (crashesToMarkUnhealthy)
        <input type="number" min="1" value={limit} onInput={(event) => (limit.value = event.currentTarget.value)} />
      </label>
      {isEnough ? (
        <p>
          {scaleConsequence(countsOf(model.value, keyOf(metadata)), spec, blockedReason(raised))} After{' '}
          {plural(wanted - status.crashesCount, 'more crash', 'more crashes')} the build is stopped again.
        </p>
      ) : null}
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
      title={`Delete ${name}`}
      verb={`Delete ${name}`}
      isDangerous
      problem={typed.value === name ? undefined : `Type ${name} to confirm.`}
      run={remove}
      onOpen={() => (typed.value = '')}
    >
      <p>{deleteConsequence(countsOf(model.value, keyOf(build.metadata)), matchesOf(build))}</p>
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
