/** A modal dialog: the browser keeps the focus in it, and Escape closes it. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'

export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children?: ComponentChildren
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const opener = useRef<Element | null>(null)
  const id = useId()
  // Before the next paint: what is in the document and not yet shown takes neither the focus nor a key.
  useLayoutEffect(() => {
    opener.current = document.activeElement
    dialog.current?.showModal()
    focusFirst(dialog.current)
  }, [])
  useEffect(
    () => () => {
      // The browser does this only for a dialog that is closed before it is removed.
      if (opener.current instanceof HTMLElement && opener.current.isConnected) opener.current.focus()
      else document.querySelector('main')?.focus({ preventScroll: true })
    },
    [],
  )
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="small round" aria-label="Close" onClick={() => dialog.current?.close()}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  )
}

/** A field to fill in, else the control that is safe or meant, and not the one that closes, which the browser would choose. */
function focusFirst(dialog: HTMLDialogElement | null): void {
  const field = dialog?.querySelector<HTMLInputElement>('input:is([type=number], [type=text])')
  const control = field ?? dialog?.querySelector<HTMLElement>('[data-first=true]:enabled, form button[type=button]')
  control?.focus()
  field?.select()
}
