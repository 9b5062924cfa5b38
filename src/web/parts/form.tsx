/** Form controls, each with its label and hint, and a button that copies. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import { copyText } from './copy.ts'

type FieldProps = { label: string; name: string; value: string; onChange(value: string): void }

type TextProps = FieldProps & {
  /** The accepted values, or the error. */
  hint?: string
  /** More attributes of the element. */
  input?: { readonly [attribute: string]: string | number | boolean | undefined }
}

export function TextField({ label, name, value, onChange, hint, input }: TextProps) {
  const id = useId()
  return (
    <div class="field" data-name={name}>
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        type="text"
        value={value}
        autocomplete="off"
        spellcheck={false}
        aria-describedby={hint && `${id}-hint`}
        onInput={event => onChange(event.currentTarget.value)}
        {...input}
      />
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  )
}

type Options = readonly (readonly [value: string, text: string])[]

/** `isBare`: the label is for screen readers only. */
export function SelectField(props: FieldProps & { options: Options; isBare?: boolean }) {
  const { label, name, value, onChange, options, isBare } = props
  const id = useId()
  return (
    <div class={isBare ? undefined : 'field'}>
      {!isBare && <label for={id}>{label}</label>}
      <select
        id={id}
        aria-label={isBare ? label : undefined}
        class={isBare ? 'small' : undefined}
        name={name}
        value={value}
        onChange={event => onChange(event.currentTarget.value)}
      >
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

type CheckProps = {
  label: ComponentChildren
  name: string
  value?: string
  isOn: boolean
  onChange(isOn: boolean): void
}

export const CheckField = ({ label, name, value, isOn, onChange }: CheckProps) => (
  <label class="check">
    <input
      type="checkbox"
      name={name}
      value={value}
      checked={isOn}
      onChange={event => onChange(event.currentTarget.checked)}
    />
    {label}
  </label>
)

type SwitchProps<V extends string> = {
  name: string
  label: string
  value: V
  onChange(value: NoInfer<V>): void
  options: readonly (readonly [value: V, text: ComponentChildren, title?: string])[]
}

/** Radio buttons in a row. */
export const Radios = <V extends string>(props: SwitchProps<V>) => (
  <fieldset class="switch" aria-label={props.label}>
    {props.options.map(([each, text, title]) => (
      <label key={each} title={title}>
        <input
          type="radio"
          name={props.name}
          value={each}
          checked={each === props.value}
          onChange={() => props.onChange(each)}
        />
        {text}
      </label>
    ))}
  </fieldset>
)

/** Calls `then` with a value that is unchanged for `ms`; not with `null`. */
export function useSettled<T>(value: T | null, ms: number, then: (value: T) => void): void {
  useEffect(() => {
    if (value === null) return
    const timer = setTimeout(() => then(value), ms)
    return () => clearTimeout(timer)
  }, [value])
}

const COPIED_MS = 1800

type CopyProps = {
  text: string
  /** The element that shows the text. */
  from(): HTMLElement | null
  look: string
  words: { copy: string; copied: string }
}

/** A button that copies a text, and says so for a while. */
export function Copy({ text, from, look, words }: CopyProps) {
  const [isCopied, setCopied] = useState(false)
  useSettled(isCopied || null, COPIED_MS, () => setCopied(false))
  const copy = async (): Promise<void> => setCopied(await copyText(text, from()))
  return (
    <button type="button" class={look} onClick={copy}>
      {isCopied ? words.copied : words.copy}
    </button>
  )
}
