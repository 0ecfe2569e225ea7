/** The CPU and memory that a server uses, measured again and again while it is shown. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FleetError } from '../../../../contracts/errors.js'
import type { ServerUsage } from '../../../../contracts/fleet.js'
import { keyOf, type Ref } from '../../../../rules/model/resources.js'
import { connections, fleet } from '../../data/live.js'
import { usageText } from '../../data/words.js'

const readMs = 3_000

/** Nothing where the backend does not measure it, or does not know this server yet. */
export function Usage({ of }: { readonly of: Ref }) {
  const usage = useSignal<ServerUsage | undefined>(undefined)
  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const read = async () => {
      try {
        if (!document.hidden) usage.value = await fleet.servers.usage(of, { signal: stop.signal })
      } catch (error) {
        usage.value = undefined
        if (FleetError.is(error, 'unsupported') || FleetError.is(error, 'forbidden')) return
      }
      if (!stop.signal.aborted) timer = setTimeout(() => void read(), readMs)
    }
    void read()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [keyOf(of), connections.value])
  if (usage.value === undefined) return null
  return (
    <div>
      <dt>uses</dt>
      <dd>{usageText(usage.value)}</dd>
    </div>
  )
}
