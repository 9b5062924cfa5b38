/** What views have in common: alerts, instants, forms in dialogs, and what can be done with a thing. */
import { type ComponentChildren, createContext, type VNode } from 'preact'
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { copyText } from '../parts/copy.ts'
import { TextField } from '../parts/form.tsx'
import { messageOf, RequestError } from './client.ts'
import { clock, moment, UNKNOWN } from './format.ts'
import type { Live } from './live.ts'

/** What went wrong, said at once by a screen reader. */
export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="alert" role="alert">
    {children}
  </p>
)

/** What stands in place of a value that is not there, or above one that is out of date. */
export function LiveNotice({ live: { value, problem, atMs, refresh } }: { live: Live<unknown> }) {
  if (problem === null) return value === null ? <p class="soft">Loading…</p> : null
  const since = atMs === null ? '' : `These figures are from ${clock(atMs)}. `
  return (
    <div class="alert" role="alert">
      {`${since}${problem} It is asked again every few seconds.`}
      <button type="button" class="plain" onClick={refresh}>
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
  /** Called when it is closed in any way; without it, Escape does not: something would be lost. */
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

/** What the server refused, and in which field; `''` in none of them. */
type Problem = { message: string; field: string }
const ProblemContext = createContext<Problem | null>(null)

/** A text field that shows what the server says of it. */
export function Field(props: Parameters<typeof TextField>[0]) {
  const problem = useContext(ProblemContext)
  const isWrong = problem?.field === props.name
  return <TextField {...props} {...(isWrong && { isWrong, hint: problem.message })} />
}

/** Texts that are edited, by name, and what a field of each takes. */
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
  /** Sends the change; the dialog then closes unless it returns `stays`, and is open with what it throws. */
  onSubmit(): Promise<unknown>
  onClose(): void
  children?: ComponentChildren
}

/** The text field of a form that an error is about. */
function wrongField(error: unknown, elements: HTMLFormControlsCollection) {
  const input = error instanceof RequestError ? elements.namedItem(error.field) : null
  return input instanceof HTMLInputElement && input.type === 'text' ? input : null
}

/** Sends a form once at a time; what is refused in a text field of it, that field says and has the focus. */
function useSubmit({ onSubmit, onClose }: Pick<FormDialogProps, 'onSubmit' | 'onClose'>) {
  const [problem, setProblem] = useState<Problem | null>(null)
  const [isBusy, setBusy] = useState(false)
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    if (isBusy) return
    const { elements } = event.currentTarget as HTMLFormElement
    setBusy(true)
    setProblem(null)
    try {
      if ((await onSubmit()) !== 'stays') onClose()
    } catch (error) {
      const input = wrongField(error, elements)
      input?.focus()
      setProblem({ message: messageOf(error), field: input?.name ?? '' })
    }
    setBusy(false)
  }
  return { problem, isBusy, submit }
}

/** A dialog whose one action is sent to the server. */
export function FormDialog(props: FormDialogProps) {
  const { title, hint, action, onClose, children } = props
  const { problem, isBusy, submit } = useSubmit(props)
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} noValidate>
        {hint && <p class="soft">{hint}</p>}
        <ProblemContext.Provider value={problem}>
          {children && <div class="fields">{children}</div>}
        </ProblemContext.Provider>
        {problem?.field === '' && <Alert>{problem.message}</Alert>}
        <div class="actions">
          <button type="button" class="plain" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** What can be done with a thing: at once, once it was confirmed, or in a dialog of its own. */
export type Action = { name: string; isOff?: boolean } & (
  | { run(): Promise<unknown>; confirm?: Pick<FormDialogProps, 'title' | 'hint'> }
  | { open(close: () => void): VNode }
)

type ActionsProps = { actions: readonly Action[]; look: 'plain' | 'quiet' | 'primary'; of?: string }

/** A button for each action; `of` names the thing, for who hears the button without its row. */
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
    <div class="row-actions">
      {actions.map(each => (
        <button
          key={each.name}
          type="button"
          class={look}
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
          action={action.name}
          onSubmit={action.run}
          onClose={close}
        />
      )}
    </div>
  )
}

type NewBarProps = { name: string; open(close: () => void): VNode; children?: ComponentChildren }

/** The bar above a view, with the button that makes a thing. */
export const NewBar = ({ children, ...action }: NewBarProps) => (
  <div class="bar-above">
    {children}
    <Actions look="primary" actions={[action]} />
  </div>
)

type CopyProps = { label: string; value: string; action: string; isLong?: boolean }

/** A text with a button that copies it. */
export function Copyable({ label, value, action, isLong = false }: CopyProps) {
  const [copied, setCopied] = useState('')
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null)
  const copy = async (): Promise<void> => {
    const isCopied = await copyText(value, null)
    if (!isCopied) field.current?.select()
    setCopied(isCopied ? 'Copied' : 'Press Ctrl+C')
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
