/** A button that first says what it will do, and then shows whether it did. */
import { useSignal, useSignalEffect } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { staleness } from '../data/live.js'
import { takeRequest } from '../data/requested.js'
import { Dialog } from './dialog.js'

export interface ActionProps {
  /** On the button. */
  readonly name: string
  /** Of the dialog: names what the action concerns. */
  readonly title: string
  /** On the button, in place of the name: a sign of one letter. */
  readonly label?: string | undefined
  /** On the button that takes the action. */
  readonly verb: string
  readonly isDangerous?: boolean
  readonly isSmall?: boolean | undefined
  /** Why it cannot be taken with what the form says, if so. */
  readonly problem?: string | undefined
  readonly run: () => Promise<unknown>
  /** What it will do, and the form that says more precisely what. */
  readonly children: ComponentChildren
  readonly onOpen?: () => void
}

export function Action(props: ActionProps) {
  const { name, title, label, verb, isDangerous = false, isSmall = label !== undefined, run, children, onOpen } = props
  const isOff = staleness.value !== undefined
  const problem = isOff ? 'This page shows old data. Wait until it is live again.' : props.problem
  const isOpen = useSignal(false)
  const isRunning = useSignal(false)
  const failure = useSignal('')
  const submit = async (event: Event) => {
    event.preventDefault()
    if (problem !== undefined || isRunning.value) return
    isRunning.value = true
    failure.value = ''
    try {
      await run()
      isOpen.value = false
    } catch (error) {
      failure.value = error instanceof Error ? error.message : String(error)
    } finally {
      isRunning.value = false
    }
  }
  const open = () => {
    failure.value = ''
    onOpen?.()
    isOpen.value = true
  }
  useSignalEffect(() => {
    // Small buttons concern something else than what the view is about.
    if (label === undefined && !isSmall && takeRequest(name)) open()
  })
  return (
    <>
      <button
        type="button"
        class={`${isSmall ? 'small' : ''} ${label === undefined ? '' : 'step'} ${isDangerous ? 'danger' : ''}`}
        disabled={isOff && !isOpen.value}
        aria-label={label === undefined ? undefined : name}
        onClick={open}
      >
        {label ?? name}
      </button>
      {isOpen.value ? (
        <Dialog title={title} onClose={() => (isOpen.value = false)}>
          <form class="action" onSubmit={(event) => void submit(event)}>
            {children}
            {failure.value === '' ? null : (
              <p class="problem" role="alert">
                {failure.value}
              </p>
            )}
            {problem === undefined ? null : <p class="problem">{problem}</p>}
            <div class="actions">
              <button
                type="submit"
                class={isDangerous ? 'danger' : 'main'}
                disabled={problem !== undefined || isRunning.value}
                data-first={!isDangerous}
              >
                {isRunning.value ? 'Working…' : verb}
              </button>
              <button type="button" onClick={() => (isOpen.value = false)} data-first={isDangerous}>
                Cancel
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
    </>
  )
}
