/** The request: how many proxies match, the chosen filters, the request as code, the form of its answer. */
import { useRef } from 'preact/hooks'
import { remembered } from '../parts/browser.ts'
import { CheckField, Copy, Radios, SelectField } from '../parts/form.tsx'
import { fill, LANGS } from '../parts/format.ts'
import { useRemembered } from '../parts/header.tsx'
import { Scroller } from '../parts/table.tsx'
import {
  applies,
  FORMS,
  formOf,
  isList,
  itemsOf,
  MEMBERS,
  type Name,
  type Param,
  SORTS,
  START,
  toggled,
} from './model/query.ts'
import { CODES, type Code, type RequestParts, snippet, urlOf } from './model/snippets.ts'
import type { FilterProps } from './options.tsx'
import type { Say } from './translations.ts'
import { Ask, Results, type ResultsProps, type TryProps, useAttempt } from './try.tsx'

/** Parameters that the statistics do not take into account. */
const UNCOUNTED: readonly Name[] = ['ip', 'port', 'unique']

/** Whether the statistics take all parameters into account: else they say neither how many match, nor which. */
export const isCounted = (params: readonly Param[]): boolean =>
  !params.some(([name]) => UNCOUNTED.includes(name))

export const matchText = (count: number, { words, number, plural }: Say): string =>
  `${number(count)} ${plural(count, words.matches)}`

type CountProps = { count: number | null; clear: (() => void) | null; say: Say }

/** The number of matching proxies. It stays in view, on a narrow screen at the bottom. */
function Count({ count, clear, say }: CountProps) {
  const { words, number, plural } = say
  return (
    <div class="count card">
      <p>
        {count === null ? (
          <span class="title">{words.request}</span>
        ) : (
          <>
            <b>{number(count)}</b> {plural(count, words.matches)}
          </>
        )}
      </p>
      {clear !== null && (
        <button type="button" class="quiet" onClick={clear}>
          {words.clear}
        </button>
      )}
      <button type="button" class="primary jump" onClick={goToRequest}>
        {words.request}
      </button>
    </div>
  )
}

/** Brings the request into view and the focus to it. */
export function goToRequest(): void {
  const request = document.getElementById('request')
  request?.focus({ preventScroll: true })
  request?.scrollIntoView({ block: 'start' })
}

type ChipsProps = Pick<FilterProps, 'set' | 'say'> & { params: readonly Param[] }

/** The text of a chip: the name of a country, the item of another list, or the parameter with its value. */
const chipText = (name: Name, item: string, say: Say) =>
  name === 'country' ? (
    say.country(item.toUpperCase())
  ) : isList(name) ? (
    item
  ) : (
    <code>
      {name}={item}
    </code>
  )

/** The chosen filters. A click removes one. */
function Chips({ set, params, say }: ChipsProps) {
  const chips = params.flatMap(([name, value]) =>
    isList(name)
      ? itemsOf(value).map(item => ({ name, item, rest: toggled(value, item) }))
      : [{ name, item: value, rest: '' }],
  )
  if (chips.length === 0) return null
  return (
    <ul class="row chips" aria-label={say.words.chosen}>
      {chips.map(({ name, item, rest }) => (
        <li key={`${name} ${item}`}>
          <button
            type="button"
            aria-label={fill(say.words.remove, { what: `${name}=${item}` })}
            onClick={() => set({ [name]: rest })}
          >
            {chipText(name, item, say)} ×
          </button>
        </li>
      ))}
    </ul>
  )
}

function RequestCode({ parts, say }: { parts: RequestParts; say: Say }) {
  const [code, choose] = useRemembered<Code>(
    'code',
    () => CODES.find(code => code === remembered('code')) ?? 'curl',
  )
  const pre = useRef<HTMLPreElement>(null)
  const program = snippet(code, parts)
  return (
    <div class="sample">
      <p class="address">
        <span class="hidden">{say.words.requestUrl}</span>
        <code id="request-url">{urlOf(parts)}</code>
      </p>
      <div class="code-head">
        <Radios
          name="code"
          label={say.words.code}
          value={code}
          onChange={choose}
          options={CODES.map(name => [name, name])}
        />
        <Copy
          key={program}
          text={program}
          from={() => pre.current}
          look="quiet copy"
          words={say.words}
        />
      </div>
      <Scroller name={code}>
        <pre ref={pre} id="code">
          {program}
        </pre>
      </Scroller>
    </div>
  )
}

/** Check boxes of parameters, with the value of the parameter when checked. */
const OPTIONS = [
  ['unique', '1'],
  ['type_prefix', '1'],
  ['split_ip', '1'],
  ['format', 'object'],
  ['wrap', '1'],
  ['pretty', '0'],
] as const

/** The choice of members of each record. */
function Fields({ choice, set, services, say }: FilterProps) {
  const chosen = itemsOf(choice.fields)
  const members = [...MEMBERS, ...services].filter(m => m !== 'port' || choice.split_ip === '1')
  return (
    <fieldset class="row" aria-label={say.words.fields}>
      {say.words.fields}
      {members.map(member => (
        <CheckField
          key={member}
          label={<code>{member}</code>}
          name="fields"
          value={member}
          isOn={chosen.includes(member)}
          onChange={() => set({ fields: toggled(choice.fields, member) })}
        />
      ))}
    </fieldset>
  )
}

function MoreOptions(props: FilterProps) {
  const { choice, set, say } = props
  const { words } = say
  const form = formOf(choice)
  return (
    <details>
      <summary>{words.more}</summary>
      <div>
        <div class="row">
          {words.lang}
          <Radios
            name="lang"
            label={words.lang}
            value={LANGS.find(lang => lang === choice.lang) ?? say.lang}
            onChange={lang => set({ lang: lang === say.lang ? '' : lang })}
            options={LANGS.map(lang => [lang, lang.toUpperCase()])}
          />
        </div>
        {OPTIONS.filter(([name]) => applies(name, form)).map(([name, value]) => (
          <CheckField
            key={name}
            label={
              <span>
                <code>{value === '1' ? name : `${name}=${value}`}</code> {words[`help_${name}`]}
              </span>
            }
            name={name}
            value={value}
            isOn={choice[name] === value}
            onChange={isOn => set({ [name]: isOn ? value : '' })}
          />
        ))}
        {applies('line', form) && (
          <label>
            <code>line</code> {words.help_line}
            <input
              name="line"
              maxLength={100}
              pattern="(?=.*\\{ip\\})(?=.*\\{port\\}).+"
              autocomplete="off"
              spellcheck={false}
              value={choice.line}
              placeholder="{scheme}://{ip}:{port}"
              onInput={event => set({ line: event.currentTarget.value })}
            />
          </label>
        )}
        {applies('fields', form) && <Fields {...props} />}
      </div>
    </details>
  )
}

function Outputs(props: FilterProps) {
  const { choice, set, say } = props
  const { words } = say
  const form = formOf(choice)
  const isFile = choice.get.endsWith('.file')
  const getOf = (name: string, asFile: boolean): string => (asFile ? `${name}.file` : name)
  return (
    <div class="outputs">
      <div class="row">
        <Radios
          name="get"
          label={words.get}
          value={form}
          onChange={name => set({ get: getOf(name, isFile) })}
          options={FORMS.map(name => [name, name.toUpperCase()])}
        />
        <CheckField
          label={words.download}
          name="get"
          value={`${form}.file`}
          isOn={isFile}
          onChange={() => set({ get: getOf(form, !isFile) })}
        />
      </div>
      <div class="row">
        <label class="row">
          {words.count}
          <input
            class="small"
            type="number"
            name="count"
            min={1}
            autocomplete="off"
            value={choice.count}
            placeholder={words.all}
            onInput={event => set({ count: event.currentTarget.value })}
          />
        </label>
        <span class="row">
          {words.sort}
          <SelectField
            isBare
            label={words.sort}
            name="sort"
            value={choice.sort || 'checked'}
            onChange={sort => set({ sort })}
            options={SORTS.map(sort => [sort, words[`sort_${sort}`]])}
          />
        </span>
      </div>
      <MoreOptions {...props} />
    </div>
  )
}

/** Parameters of the output. "Clear all" keeps them, because it clears filters only. */
const OUTPUTS = /^(unique|count|lang|get|type_prefix|line|fields|split_ip|format|wrap|pretty)$/
const isOutput = (name: string): boolean => OUTPUTS.test(name)

type PanelProps = FilterProps &
  TryProps &
  Pick<ResultsProps, 'kind'> & {
    count: number | null
    /** The error of the numbers. */
    note: string | null
    params: readonly Param[]
  }

export function Panel(props: PanelProps) {
  const { choice, set, params, query, count, note, say } = props
  const attempt = useAttempt(props)
  const filters = params.filter(([name]) => !isOutput(name))
  const parts = { origin: location.origin, choice, params, query }
  const clear = (): void =>
    set(Object.fromEntries(Object.entries(START).filter(([name]) => !isOutput(name))))
  return (
    <div class="side">
      <Count count={count} clear={filters.length === 0 ? null : clear} say={say} />
      <aside class="request card" id="request" tabIndex={-1} aria-label={say.words.request}>
        <Chips params={filters} set={set} say={say} />
        {note !== null && <p class="bad">{note}</p>}
        <RequestCode parts={parts} say={say} />
        <Outputs {...props} />
        <Ask {...props} {...attempt} />
      </aside>
      <Results {...props} {...attempt} />
    </div>
  )
}
