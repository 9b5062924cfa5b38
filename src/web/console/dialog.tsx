/** Parts of several views: alerts, times, dialogs with forms, and action buttons. */
import type { ComponentChildren, VNode } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Copy } from '../parts/form.tsx'
import { messageOf } from './client.ts'
import { UNKNOWN, utc } from './format.ts'
import type { Live } from './live.ts'

export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="alert" role="alert">
    {children}
  </p>
)

/** Says that a value is loading, or why it is out of date. */
export function LiveNotice({ live: { value, problem } }: { live: Live<unknown> }) {
  if (problem === null) return value === null ? <p class="soft">Loading…</p> : null
  const old = value === null ? '' : ' These figures are old.'
  return <Alert>{`${problem}${old} Retrying every few seconds.`}</Alert>
}

type WhenProps = { time: string | null; none?: string; show(time: string): string }

/** An instant in local time; its title is in UTC. */
export const When = ({ time, none = UNKNOWN, show }: WhenProps) =>
  time === null ? (
    <span class="soft">{none}</span>
  ) : (
    <time dateTime={time} title={utc(time)}>
      {show(time)}
    </time>
  )

type DialogProps = {
  title: string
  /** Called after the dialog closes. Without it Escape does not close the dialog. */
  onClose?: () => void
  children: ComponentChildren
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useLayoutEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      closedby={onClose ? undefined : 'none'}
      onClose={onClose ?? (() => dialog.current?.showModal())}
      onCancel={event => onClose === undefined && event.preventDefault()}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}

/** The texts of a form by name, and the properties of the field for each. */
export function useFields<F extends { readonly [name: string]: string }>(start: F) {
  const [values, setValues] = useState(start)
  const field = (name: keyof F & string) => ({
    ...{ name, value: values[name] as string }, // of the names of `start`
    onChange: (value: string) => setValues(before => ({ ...before, [name]: value })),
  })
  return [values, field] as const
}

type FormDialogProps = {
  title: string
  hint?: string
  action: string
  /** Whether the action stops clients, or loses data. */
  isDanger?: boolean | undefined
  /** Sends the change. The dialog then closes, unless this throws or returns `stays`. */
  onSubmit(): Promise<unknown>
  onClose(): void
  children?: ComponentChildren
}

/** A dialog with one action on the server, whose error stands above the buttons. */
export function FormDialog(props: FormDialogProps) {
  const { title, hint, action, isDanger, onSubmit, onClose, children } = props
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    setBusy(true)
    setProblem('')
    try {
      if ((await onSubmit()) !== 'stays') onClose()
    } catch (error) {
      setProblem(messageOf(error))
    }
    setBusy(false)
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} noValidate>
        {hint && <p class="soft">{hint}</p>}
        {children && <div class="fields">{children}</div>}
        {problem && <Alert>{problem}</Alert>}
        <div class="row actions">
          <button type="button" class="plain" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={`primary ${isDanger ? 'danger' : ''}`} disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** An action on something: immediate, after a confirmation, or in its own dialog. */
export type Action = { name: string; isOff?: boolean; isDanger?: boolean } & (
  | { run(): Promise<unknown>; confirm?: Pick<FormDialogProps, 'title' | 'hint'> }
  | { open(close: () => void): VNode }
)

type ActionsProps = { actions: readonly Action[]; look: 'plain' | 'quiet' | 'primary'; of?: string }

/** A button for each action; `of` names its object for screen readers. */
export function Actions({ actions, look, of }: ActionsProps) {
  const [opened, setOpened] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const start = async (action: Action): Promise<void> => {
    setProblem(null)
    if ('open' in action || action.confirm) return setOpened(action.name)
    await action.run().catch(error => setProblem(messageOf(error)))
  }
  const action = actions.find(({ name }) => name === opened)
  const close = (): void => setOpened(null)
  return (
    <div class="row row-actions">
      {actions.map(each => (
        <button
          key={each.name}
          type="button"
          class={`${look} ${each.isDanger ? 'danger' : ''}`}
          disabled={each.isOff}
          onClick={() => start(each)}
        >
          {each.name}
          {of && <span class="hidden"> {of}</span>}
        </button>
      ))}
      {problem && <Alert>{problem}</Alert>}
      {action && 'open' in action && action.open(close)}
      {action && 'run' in action && action.confirm && (
        <FormDialog
          {...action.confirm}
          isDanger={action.isDanger}
          action={action.name}
          onSubmit={action.run}
          onClose={close}
        />
      )}
    </div>
  )
}

type NewBarProps = { name: string; open(close: () => void): VNode; children?: ComponentChildren }

/** The bar above a view, with the button that adds something. */
export const NewBar = ({ children, ...action }: NewBarProps) => (
  <div class="row bar-above">
    {children}
    <Actions look="primary" actions={[action]} />
  </div>
)

/** A text with a button that copies it. */
export function Copyable({ value, action }: { value: string; action: string }) {
  const text = useRef<HTMLPreElement>(null)
  return (
    <div class="copyable">
      <pre ref={text}>{value}</pre>
      <Copy
        text={value}
        from={() => text.current}
        look="plain"
        words={{ copy: action, copied: 'Copied' }}
      />
    </div>
  )
}
