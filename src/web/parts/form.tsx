/** Owns the fields of forms: a label, a control and a hint that belong together. */
import { useId } from 'preact/hooks'

type TextProps = {
  label: string
  name: string
  value: string
  onChange(value: string): void
  hint?: string | undefined
  placeholder?: string
}

export function TextField({ label, name, value, onChange, hint, placeholder }: TextProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        type="text"
        value={value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        aria-describedby={hint && `${id}-hint`}
        onInput={event => onChange(event.currentTarget.value)}
      />
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  )
}

type SelectProps = {
  label: string
  name: string
  value: string
  onChange(value: string): void
  options: readonly (readonly [value: string, text: string])[]
  /** Whether only a screen reader says the label. */
  isBare?: boolean
}

export function SelectField({ label, name, value, onChange, options, isBare }: SelectProps) {
  const id = useId()
  return (
    <div class={isBare ? 'select' : 'field'}>
      <label for={id} class={isBare ? 'hidden' : undefined}>
        {label}
      </label>
      <select
        id={id}
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

type CheckProps = { label: string; name: string; isOn: boolean; onChange(isOn: boolean): void }

export const CheckField = ({ label, name, isOn, onChange }: CheckProps) => (
  <label class="check">
    <input
      type="checkbox"
      name={name}
      checked={isOn}
      onChange={event => onChange(event.currentTarget.checked)}
    />
    <span>{label}</span>
  </label>
)
