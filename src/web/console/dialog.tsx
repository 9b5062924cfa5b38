/** Owns dialogs: forms and confirmations that say what the server says about them. */
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useConsole } from './context.ts'
import { Alert } from './notice.tsx'

type DialogProps = {
  title: string
  /** Called when it is closed in any way. */
  onClose(): void
  /** Whether Escape closes it; not where something would be lost. */
  isLasting?: boolean
  children: ComponentChildren
}

export function Dialog({ title, onClose, isLasting = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useLayoutEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      onCancel={event => isLasting && event.preventDefault()}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}

type FormDialogProps = {
  title: string
  hint?: string
  action: string
  isDangerous?: boolean
  /** Sends the change; the dialog stays open with the message of what it throws. */
  onSubmit(): Promise<void>
  onClose(): void
  children?: ComponentChildren
}

/** A dialog whose one action is sent to the server. */
export function FormDialog(props: FormDialogProps) {
  const { title, hint, action, isDangerous = false, onSubmit, onClose, children } = props
  const { words } = useConsole().speech
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    setProblem(null)
    try {
      await onSubmit()
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error))
    }
    setBusy(false)
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} noValidate>
        {hint && <p class="soft">{hint}</p>}
        {children && <div class="fields">{children}</div>}
        {problem && <Alert>{problem}</Alert>}
        <div class="actions">
          <button type="button" class="plain" onClick={onClose}>
            {words.cancel}
          </button>
          <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
