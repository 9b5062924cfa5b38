/** What views have in common: alerts, instants, and dialogs that say what the server says about them. */
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { remember, remembered } from '../parts/browser.ts'
import { TextField } from '../parts/form.tsx'
import { RequestError } from './client.ts'
import { customerMessage, type GivenKey } from './key-message.ts'
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

type CopyProps = { label: string; value: string; action: string; isLong?: boolean }

/** A text with a button that copies it. */
export function Copyable({ label, value, action, isLong = false }: CopyProps) {
  const [copied, setCopied] = useState('')
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null)
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(value)
      setCopied('Copied')
    } catch {
      field.current?.select() // plain http on another host than localhost has no clipboard
      setCopied('Press Ctrl+C')
    }
  }
  const Field = isLong ? 'textarea' : 'input'
  return (
    <div class="copyable" data-long={isLong || undefined}>
      <Field
        ref={field}
        readOnly
        value={value}
        rows={isLong ? value.split('\n').length + 2 : undefined}
        aria-label={label}
        onFocus={event => event.currentTarget.select()}
      />
      <button type="button" class={isLong ? 'plain' : 'primary'} onClick={copy}>
        {copied || action}
      </button>
      <span class="hidden" role="status">
        {copied}
      </span>
    </div>
  )
}

/** A new secret: of a key that is stored, or of one of which nobody knows that, and why. */
export type Secret = (GivenKey & { hint?: string }) | { key: string; problem: string }

/** The secret that a request makes, also where nobody knows whether it was stored. */
export async function secretOf<T>(made: Promise<T>, of: (made: T) => Secret): Promise<Secret> {
  try {
    return of(await made)
  } catch (error) {
    if (!(error instanceof RequestError) || error.secret === null) throw error
    return { key: error.secret, problem: error.message }
  }
}

/** What is sent to the customer, with the address that this browser remembers. */
function Message({ given }: { given: GivenKey }) {
  const [address, setAddress] = useState(remembered('service') ?? '')
  return (
    <>
      <h3>Message for the customer</h3>
      <div class="fields">
        <TextField
          label="Address of the service"
          name="address"
          value={address}
          onChange={value => {
            setAddress(value)
            remember('service', value)
          }}
          hint="as customers reach it, such as https://proxies.example.com; this browser remembers it"
        />
        <Copyable
          label="Message for the customer"
          value={customerMessage(given, address)}
          action="Copy the message"
          isLong
        />
      </div>
    </>
  )
}

/** The dialog after a key was made: closed by its button alone, since the key is not shown again. */
export const SecretDialog = ({ secret, onClose }: { secret: Secret; onClose(): void }) => (
  <Dialog title="The key" onClose={onClose} isLasting>
    <p class="soft">Copy it now: only a checksum is stored, so it cannot be shown again.</p>
    <Copyable label="The key" value={secret.key} action="Copy" />
    {'problem' in secret ? (
      <Alert>{secret.problem}</Alert>
    ) : (
      <>
        {secret.hint && <p class="soft">{secret.hint}</p>}
        <Message given={secret} />
      </>
    )}
    <div class="actions">
      <button type="button" class="plain" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
)
