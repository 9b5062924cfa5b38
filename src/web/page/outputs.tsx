/** Owns how the answer shall look: its form, length, language and members. */
import { fill } from '../parts/speech.ts'
import {
  applies,
  type Choice,
  FORMS,
  formOf,
  isInvalid,
  itemsOf,
  MEMBERS,
  type Name,
  toggled,
} from './model/query.ts'
import { Radios } from './radios.tsx'
import type { Say } from './words/say.ts'

type OutputsProps = {
  choice: Choice
  set: (change: Partial<Choice>) => void
  services: readonly string[]
  say: Say
}

type CheckProps = {
  name: Name
  /** The value of the parameter when it is checked; otherwise it is left out. */
  value: string
  text: string
} & Pick<OutputsProps, 'choice' | 'set'>

const Check = ({ name, value, text, choice, set }: CheckProps) => (
  <label class="check">
    <input
      type="checkbox"
      name={name}
      value={value}
      checked={choice[name] === value}
      onChange={() => set({ [name]: choice[name] === value ? '' : value })}
    />
    <code>{text}</code>
  </label>
)

const OPTIONS: readonly { name: Name; value: string; text: string }[] = [
  { name: 'type_prefix', value: '1', text: 'type_prefix' },
  { name: 'split_ip', value: '1', text: 'split_ip' },
  { name: 'format', value: 'object', text: 'format=object' },
  { name: 'wrap', value: '1', text: 'wrap' },
  { name: 'pretty', value: '0', text: 'pretty=0' },
]

/** The members of a record, of which some may be chosen. */
function Fields({ choice, set, services, say }: OutputsProps) {
  const { words, number } = say
  const members = [...MEMBERS, ...services]
  const chosen = itemsOf(choice.fields)
  const count = { n: number(chosen.length), all: number(members.length) }
  const isUsable = (member: string): boolean => member !== 'port' || choice.split_ip === '1'
  return (
    <details class="members">
      <summary>
        {words.fields}{' '}
        <small>{chosen.length === 0 ? words.allFields : fill(words.someFields, count)}</small>
      </summary>
      <div class="member-list">
        {members.filter(isUsable).map(member => (
          <label class="check" key={member}>
            <input
              type="checkbox"
              name="fields"
              value={member}
              checked={chosen.includes(member)}
              onChange={() => set({ fields: toggled(choice.fields, member) })}
            />
            <code>{member}</code>
          </label>
        ))}
      </div>
    </details>
  )
}

export function Outputs(props: OutputsProps) {
  const { choice, set, say } = props
  const { words } = say
  const form = formOf(choice)
  const isFile = choice.get.endsWith('.file')
  const getOf = (name: string, asFile: boolean): string => (asFile ? `${name}.file` : name)
  return (
    <div class="outputs">
      <Radios
        name="get"
        label={words.get}
        options={FORMS.map(name => ({ value: name, text: name.toUpperCase() }))}
        chosen={form}
        choose={name => set({ get: getOf(name, isFile) })}
      />
      <label class="check">
        <input
          type="checkbox"
          name="get"
          value={`${form}.file`}
          checked={isFile}
          onChange={() => set({ get: getOf(form, !isFile) })}
        />
        {words.download}
      </label>
      <label class="inline">
        {words.count}
        <input
          class="input small"
          name="count"
          inputMode="numeric"
          maxLength={15}
          autocomplete="off"
          value={choice.count}
          placeholder={words.all}
          aria-invalid={isInvalid('count', choice.count) || undefined}
          onInput={event => set({ count: event.currentTarget.value })}
        />
      </label>
      <span class="inline">
        {words.lang}
        <Radios
          name="lang"
          label={words.lang}
          options={['ru', 'en'].map(value => ({ value, text: value.toUpperCase() }))}
          chosen={choice.lang === 'en' ? 'en' : 'ru'}
          choose={lang => set({ lang })}
        />
      </span>
      {OPTIONS.filter(({ name }) => applies(name, form)).map(option => (
        <Check key={option.name} {...option} choice={choice} set={set} />
      ))}
      {applies('fields', form) && <Fields {...props} />}
    </div>
  )
}
