/** Leads a new fleet to its first build and its first allocation, and then steps aside for good. */
import { signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { rights } from '../../data/access.js'
import { model } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { CopyButton } from '../../parts/parts.js'
import { AllocateAndPrograms, type AttemptState } from '../try-it.js'
import { type FirstStep, firstStep } from './steps.js'

const storageKey = 'gamekeeper-first-run'

/** Kept by the browser: a reader who has seen it does not need it again. */
const isHidden = signal(localStorage.getItem(storageKey) !== null)

function hide(): void {
  localStorage.setItem(storageKey, 'hidden')
  isHidden.value = true
}

export function FirstRun() {
  /** Once the form has been sent, it stays until the reader is done with the answer: events may come before it. */
  const attempt = useSignal<AttemptState | undefined>(undefined)
  const step = firstStep(model.value)
  const isOffered = !isHidden.value && rights.may('allocate')
  if (!isOffered) return step === 'build' ? <Steps at="build" /> : null
  const hasForm = step === 'allocation' || attempt.value !== undefined
  if (!hasForm) return step === undefined ? null : <Steps at={step} />
  return (
    <>
      <Steps at={attempt.value === 'allocated' ? 'done' : (step ?? 'allocation')} />
      <AllocateAndPrograms builds={[...model.value.builds.values()]} onAttempt={(state) => (attempt.value = state)} />
    </>
  )
}

const order = ['build', 'servers', 'allocation', 'done'] as const
type Place = FirstStep | 'done'

const names: readonly (readonly [FirstStep, string])[] = [
  ['build', 'Create a build'],
  ['servers', 'Servers stand by'],
  ['allocation', 'Allocate one'],
]

const titles: Readonly<Record<Place, string>> = {
  build: 'No builds yet',
  servers: 'The first servers are starting',
  allocation: 'Ready for the first match',
  done: 'The first match has a server',
}

function Steps({ at }: { readonly at: Place }) {
  return (
    <section class="panel first-run" aria-labelledby="first-run">
      <header>
        <h2 id="first-run">{titles[at]}</h2>
        {at === 'build' ? null : (
          <button type="button" class="small" onClick={hide}>
            {at === 'done' ? 'Done' : 'Hide'}
          </button>
        )}
      </header>
      <ol class="steps">
        {names.map(([step, name]) => {
          const isDone = order.indexOf(step) < order.indexOf(at)
          return (
            <li key={step} class={isDone ? 'done' : ''} aria-current={step === at ? 'step' : undefined}>
              {name}
              {isDone ? <span class="hidden"> (done)</span> : null}
            </li>
          )
        })}
      </ol>
      {texts[at]}
    </section>
  )
}

const commands = [
  ['npx gamekeeper init arena', 'makes a small project with a game and a build of its own'],
  ['npx gamekeeper apply build.json', 'creates a build from a file'],
] as const

const texts: Readonly<Record<Place, ComponentChildren>> = {
  build: (
    <>
      <p>
        A build says what to run and how many servers to keep ready. Create the first one on the command line, or with{' '}
        <code>fleet.builds.apply</code> in your app. It appears here by itself.
      </p>
      <dl class="commands">
        {commands.map(([command, meaning]) => (
          <div key={command}>
            <dt>
              <code>{command}</code> <CopyButton text={command} name={command} />
            </dt>
            <dd class="quiet">{meaning}</dd>
          </div>
        ))}
      </dl>
    </>
  ),
  servers: (
    <p>
      The fleet starts as many servers as the build wants standing by. A server is ready once its game says so; if that
      takes long, its log says why.
    </p>
  ),
  allocation: (
    <p>
      A server waits for players. Allocate it here as your matchmaker will: it becomes active, and the fleet starts
      another one in its place.
    </p>
  ),
  done: (
    <p>
      This is all that a matchmaker does: it sends the players to the address below. <a href={linkTo.tryIt}>Try it</a>{' '}
      allocates more.
    </p>
  ),
}
