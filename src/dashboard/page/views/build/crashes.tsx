/** The crashes of a build by their cause, each with the end of its latest server's log. */
import { useSignal } from '@preact/signals'
import type { FleetActivity } from '../../../../contracts/observer.js'
import type { GameServerBuild } from '../../../../rules/model/wire.js'
import { rights } from '../../data/access.js'
import { type CrashGroup, crashGroups, crashesKnown, unknownBefore } from '../../data/crashes.js'
import { now } from '../../data/live.js'
import { linkTo } from '../../data/router.js'
import { Ago, Clock, Section } from '../../parts/parts.js'
import { LogTail } from '../log-tail.js'

const shownGroups = 10
const namedServers = 5

interface CrashesProps {
  readonly of: FleetActivity | undefined
  readonly build: GameServerBuild
}

export function Crashes({ of, build }: CrashesProps) {
  const groups = crashGroups(of?.crashes ?? [])
  const cut = unknownBefore(of, [build], now.value)
  const inHour = crashesKnown(of, [], now.value)
  const aside = (
    <span class="quiet">
      {of === undefined ? '…' : `${inHour.toLocaleString('en')} in the last hour`}
      {cut === undefined ? null : (
        <>
          , unknown before <Clock at={cut} />
        </>
      )}
    </span>
  )
  const { crashesCount } = build.status
  return (
    <Section title="Crashes" aside={aside}>
      {groups.length === 0 ? (
        <p class="quiet">
          {of === undefined
            ? 'Reading…'
            : crashesCount === 0
              ? 'None.'
              : `None in the last hour; ${crashesCount.toLocaleString('en')} since the build was created.`}
        </p>
      ) : null}
      <ul class="plain crash-groups">
        {groups.slice(0, shownGroups).map((group, index) => (
          <li key={`${group.title} ${group.detail}`}>
            <Group of={group} isFirst={index === 0} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Group({ of: { title, detail, crashes }, isFirst }: { readonly of: CrashGroup; readonly isFirst: boolean }) {
  const [latest] = crashes
  const isOpen = useSignal(isFirst)
  const output = crashes.find((crash) => crash.output !== undefined)?.output
  const servers = crashes.slice(0, namedServers)
  return (
    <>
      <p>
        <b>
          {crashes.length.toLocaleString('en')} × {title}
        </b>
        , last <Ago at={latest.at} />
        {detail === undefined ? null : (
          <>
            : <code class="words">{detail}</code>
          </>
        )}
      </p>
      <p class="quiet">
        {servers.map(({ server }, index) => (
          <span key={`${server.name} ${index}`}>
            {index > 0 ? ', ' : ''}
            <a href={linkTo.server(server)}>{server.name}</a>
          </span>
        ))}
        {crashes.length > servers.length ? ` and ${(crashes.length - servers.length).toLocaleString('en')} before` : ''}
      </p>
      {rights.may('readLogs', latest.build) ? (
        <details open={isOpen} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
          <summary>End of the log of {latest.server.name}</summary>
          {isOpen.value ? <LogTail of={latest.server} kept={output} /> : null}
        </details>
      ) : null}
    </>
  )
}
