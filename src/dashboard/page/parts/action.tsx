/** A button that first says what it will do, and then shows whether it did. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { Dialog } from './dialog.js'

export interface ActionProps {
  /** On the button, and the title of the dialog. */
  readonly name: string
  /** On the button, in place of the name: a sign of one letter. */
  readonly label?: string | undefined
  /** On the button that takes the action. */
  readonly verb: string
  readonly isDangerous?: boolean
  /** Why it cannot be taken with what the form says, if so. */
  readonly problem?: string | undefined
  readonly run: () => Promise<unknown>
  /** What it will do, and the form that says more precisely what. */
  readonly children: ComponentChildren
  readonly onOpen?: () => void
}

export function Action({ name, label, verb, isDangerous = false, problem, run, children, onOpen }: ActionProps) {
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
  return (
    <>
      <button
        type="button"
        class={label === undefined ? (isDangerous ? 'danger' : '') : 'small step'}
        aria-label={label === undefined ? undefined : name}
        onClick={open}
      >
        {label ?? name}
      </button>
      {isOpen.value ? (
        <Dialog title={name} onClose={() => (isOpen.value = false)}>
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
              >
                {isRunning.value ? 'Working…' : verb}
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
    </>
  )
}
