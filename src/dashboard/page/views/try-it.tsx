/** Allocates a server from the page, and shows how a program does the same. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { Allocation } from '../../../contracts/sessions.js'
import type { GameServerBuild } from '../../../rules/model/wire.js'
import { baseUrl, rights, token } from '../data/access.js'
import { asCurl, asTypeScript, type TriedAllocation } from '../data/examples.js'
import { fleet, model, staleness } from '../data/live.js'
import { linkTo } from '../data/router.js'
import { CopyButton, Notice, Section } from '../parts/parts.js'

const waitSeconds = 10

export function TryItView() {
  const builds = [...model.value.builds.values()]
  if (!rights.may('allocate'))
    return (
      <Notice title="You may not allocate servers" isView>
        <p>
          This needs the role <code>allocate</code>.
        </p>
      </Notice>
    )
  if (builds.length === 0)
    return (
      <Notice title="There is no build to allocate from" isView>
        <p>
          <a href={linkTo.overview}>Create the first one</a>, then come back.
        </p>
      </Notice>
    )
  return (
    <>
      <h1>Try it</h1>
      <AllocateAndPrograms builds={builds} />
    </>
  )
}

interface AllocateProps {
  readonly builds: readonly GameServerBuild[]
  readonly onAttempt?: (state: AttemptState) => void
}

export type AttemptState = 'asked' | 'allocated' | 'failed'

/** A form that allocates, its answer, and the same call as programs. */
export function AllocateAndPrograms({ builds, onAttempt }: AllocateProps) {
  const chosen = useSignal('')
  const sessionID = useSignal(newSessionID())
  const players = useSignal('amie, bob')
  const tried: TriedAllocation = {
    buildID: chosen.value || (builds[0]?.spec.buildID ?? ''),
    sessionID: sessionID.value,
    initialPlayers: players.value.split(',').flatMap((name) => name.trim() || []),
    waitSeconds,
  }
  return (
    <div class="columns">
      <Section title="Allocate a server">
        <Attempt tried={tried} onNewSession={() => (sessionID.value = newSessionID())} onAttempt={onAttempt}>
          <label>
            Build
            <select value={tried.buildID} onChange={(event) => (chosen.value = event.currentTarget.value)}>
              {builds.map(({ metadata, spec }) => (
                <option key={spec.buildID} value={spec.buildID}>
                  {metadata.name} ({spec.buildID})
                </option>
              ))}
            </select>
          </label>
          <label>
            Session
            <input type="text" value={sessionID} onInput={(event) => (sessionID.value = event.currentTarget.value)} />
          </label>
          <label>
            Players, separated by commas
            <input type="text" value={players} onInput={(event) => (players.value = event.currentTarget.value)} />
          </label>
        </Attempt>
      </Section>
      <div class="stack">
        <Program title="curl" text={asCurl(baseUrl, tried, token.value !== '')} />
        <Program title="TypeScript" text={asTypeScript(baseUrl, tried, token.value !== '')} />
      </div>
    </div>
  )
}

interface AttemptProps {
  readonly tried: TriedAllocation
  readonly onNewSession: () => void
  readonly onAttempt: ((state: AttemptState) => void) | undefined
  /** The fields. */
  readonly children: ComponentChildren
}

function Attempt({ tried, onNewSession, onAttempt, children }: AttemptProps) {
  const isRunning = useSignal(false)
  const answer = useSignal<Allocation | undefined>(undefined)
  const failure = useSignal('')
  const submit = async (event: Event) => {
    event.preventDefault()
    onAttempt?.('asked')
    isRunning.value = true
    answer.value = undefined
    failure.value = ''
    try {
      const { waitSeconds: seconds, ...request } = tried
      answer.value = await fleet.allocate(request, { waitMs: seconds * 1_000 })
      onAttempt?.('allocated')
    } catch (error) {
      onAttempt?.('failed')
      failure.value = error instanceof Error ? error.message : String(error)
    } finally {
      isRunning.value = false
    }
  }
  return (
    <>
      <form class="action" onSubmit={(event) => void submit(event)}>
        {children}
        <div class="actions">
          <button type="submit" class="main" disabled={isRunning.value || staleness.value !== undefined}>
            {isRunning.value ? 'Waiting for a server…' : 'Allocate'}
          </button>
          <button type="button" onClick={onNewSession}>
            New session
          </button>
        </div>
      </form>
      <div aria-live="polite">
        {failure.value === '' ? null : <p class="problem answer">{failure.value}</p>}
        {answer.value ? <Answer of={answer.value} /> : null}
      </div>
    </>
  )
}

function Answer({ of }: { readonly of: Allocation }) {
  const addresses = of.ports.map((port) => `${of.address}:${port.public}`)
  return (
    <div class="answer">
      <p>
        The session is on <a href={linkTo.server(of.server)}>{of.server.name}</a>. Players connect to:
      </p>
      {addresses.map((address) => (
        <p key={address}>
          <code>{address}</code> <CopyButton text={address} name={address} />
        </p>
      ))}
      <p class="quiet">The same session gets the same server, however often it is asked for.</p>
    </div>
  )
}

function Program({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <Section title={title} aside={<CopyButton text={text} name={`the ${title} program`} />}>
      <pre class="code" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </Section>
  )
}

/** A GUID, which every host accepts. */
function newSessionID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
