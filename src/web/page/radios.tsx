/** Owns a row of radio buttons, of which one is chosen, in the form of a switch. */
import type { Name } from './model/query.ts'

type RadiosProps = {
  name: Name
  label: string
  options: readonly { value: string; text: string }[]
  chosen: string
  choose: (value: string) => void
}

export const Radios = ({ name, label, options, chosen, choose }: RadiosProps) => (
  <fieldset class="switch" aria-label={label}>
    {options.map(({ value, text }) => (
      <label key={value}>
        <input
          type="radio"
          name={name}
          value={value}
          checked={value === chosen}
          onChange={() => choose(value)}
        />
        {text}
      </label>
    ))}
  </fieldset>
)
