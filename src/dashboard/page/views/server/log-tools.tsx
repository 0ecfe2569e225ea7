/** What can be done with a log: long lines wrapped, and the whole of it as a file. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Ref } from '../../../../rules/model/resources.js'
import { fleet } from '../../data/live.js'
import type { LogLine } from '../../data/log-lines.js'

export function DownloadLog({ of, onProblem }: { readonly of: Ref; readonly onProblem: (message: string) => void }) {
  const isReading = useSignal(false)
  const download = async () => {
    isReading.value = true
    try {
      const lines: string[] = []
      for await (const line of fleet.servers.logs(of)) lines.push(`${line}\n`)
      save(`${of.name}.log`, new Blob(lines, { type: 'text/plain' }))
    } catch (error) {
      onProblem(`The log cannot be downloaded: ${error instanceof Error ? error.message : String(error)}`)
    } finally {
      isReading.value = false
    }
  }
  return (
    <button type="button" disabled={isReading} onClick={() => void download()}>
      {isReading.value ? 'Reading…' : 'Download'}
    </button>
  )
}

function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** Wrapped lines have any height, so all of them are drawn, and their number is limited. */
export const maxWrapped = 2_000

export interface WrappedLinesProps {
  readonly label: string
  readonly lines: readonly LogLine[]
  readonly line: (line: LogLine) => ComponentChildren
}

/** The last lines, wrapped. Keeps the last one in view, unless the reader has scrolled up. */
export function WrappedLines({ label, lines, line }: WrappedLinesProps) {
  const box = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight
  })
  const onScroll = () => {
    const { scrollTop = 0, clientHeight = 0, scrollHeight = 0 } = box.current ?? {}
    atEnd.current = scrollTop + clientHeight >= scrollHeight - 40
  }
  return (
    <div class="log wrapped" ref={box} tabIndex={0} role="log" aria-label={label} onScroll={onScroll}>
      {lines.slice(-maxWrapped).map((one, index) => (
        <div class="line" key={index}>
          {line(one)}
        </div>
      ))}
    </div>
  )
}
