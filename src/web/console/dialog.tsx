/** What views have in common: alerts, instants, and dialogs that say what the server says about them. */
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Live } from './live.ts'
import { clock, moment, UNKNOWN } from './speech.ts'

/** What went wrong, said at once by a screen reader. */
export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="alert" role="alert">
    {children}
  </p>
)

/** What stands in place of a value that is not there, or above one that is out of date. */
export function LiveNotice({ live }: { live: Live<unknown> }) {
  const { value, problem, atMs } = live
  if (problem === null) return value === null ? <p class="soft">Loading…</p> : null
  return (
    <div class="alert" role="alert">
      <span>
        {atMs === null
          ? problem
          : `These figures are from ${clock(atMs)}. ${problem} It is asked again every few seconds.`}
      </span>
      <button type="button" class="plain" onClick={live.refresh}>
        Try again
      </button>
    </div>
  )
}

type WhenProps = { time: string | null; none?: string; show(time: string): string }

/** An instant in short; pointing at it says it whole. */
export const When = ({ time, none = UNKNOWN, show }: WhenProps) =>
  time === null ? (
    <span class="soft">{none}</span>
  ) : (
    <time dateTime={time} title={moment(time)}>
      {show(time)}
    </time>
  )

type DialogProps = {
  title: string
  /** Called when it is closed in any way. */
  onClose(): void
  /** Whether Escape closes it; not where something would be lost. */
  isLasting?: boolean
  children: ComponentChildren
}

function Dialog({ title, onClose, isLasting = false, children }: DialogProps) {
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
            Cancel
          </button>
          <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** The dialog after a key was made: closed by its button alone, since the key is not shown again. */
export function SecretDialog(props: { secret: string; hint?: string; onClose(): void }) {
  const { secret, hint, onClose } = props
  const [copied, setCopied] = useState('')
  const input = useRef<HTMLInputElement>(null)
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(secret)
      setCopied('Copied')
    } catch {
      input.current?.select() // plain http on another host than localhost has no clipboard
      setCopied('Press Ctrl+C')
    }
  }
  return (
    <Dialog title="The key" onClose={onClose} isLasting>
      <p class="soft">Copy it now: only a checksum is stored, so it cannot be shown again.</p>
      <div class="copyable">
        <input
          ref={input}
          readOnly
          value={secret}
          aria-label="The key"
          onFocus={event => event.currentTarget.select()}
        />
        <button type="button" class="primary" onClick={copy}>
          {copied || 'Copy'}
        </button>
        <span class="hidden" role="status">
          {copied}
        </span>
      </div>
      {hint && <p class="soft">{hint}</p>}
      <div class="actions">
        <button type="button" class="plain" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  )
}
