/** The request: how many proxies match, what is chosen, the request as code, how its answer looks. */
import { useRef, useState } from 'preact/hooks'
import { remembered } from '../parts/browser.ts'
import { copyText } from '../parts/copy.ts'
import { CheckField, Radios, SelectField, useSettled } from '../parts/form.tsx'
import { fill, LANGS } from '../parts/format.ts'
import { useRemembered } from '../parts/header.tsx'
import { Scroller } from '../parts/table.tsx'
import {
  applies,
  type Choice,
  FORMS,
  formOf,
  isInvalid,
  itemsOf,
  MEMBERS,
  type Name,
  type Param,
  SORTS,
  START,
  toggled,
} from './model/query.ts'
import type { Known } from './model/service.ts'
import { CODES, type Code, type RequestParts, snippet, tokensOf } from './model/snippets.ts'
import type { FilterProps } from './options.tsx'
import type { Say } from './translations.ts'
import { Ask, Results, type TryProps, useAttempt } from './try.tsx'

/** How many match; `null` where the statistics do not tell, such as of an address. */
export function matchingOf(
  stats: FilterProps['stats'],
  params: readonly Param[],
  { words, number, plural }: Say,
): { figure: string; word: string } | null {
  if (stats === null || params.some(([name]) => name === 'ip' || name === 'port')) return null
  return { figure: number(stats.matching), word: plural(stats.matching, words.matches) }
}

type CountProps = { count: ReturnType<typeof matchingOf>; clear: (() => void) | null; say: Say }

/** The number that matches, and taking all filters away: it stays in view, on a narrow screen at the bottom. */
function Count({ count, clear, say }: CountProps) {
  const { words } = say
  return (
    <div class="count card">
      <p>
        {count === null ? (
          <b class="title">{words.request}</b>
        ) : (
          <>
            <b>{count.figure}</b> {count.word}
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

type ChipsProps = Pick<FilterProps, 'choice' | 'set' | 'say'> & { params: readonly Param[] }

type Chip = { id: string; text: string; change: Partial<Choice> }

/** How a value of a parameter is shown; parameters without an entry are no filters. */
const textsOf = (say: Say): { readonly [name: string]: (value: string) => string } => {
  const { words, unit, percent, rate, span, country } = say
  const atMost = (n: string): string => fill(words.atMost, { n })
  const atLeast = (n: string): string => fill(words.atLeast, { n })
  const itself = (value: string): string => value
  return {
    ...{ type: itself, city: itself, ip: itself, service: itself, country },
    anon: value => words[value as 'elite'] ?? value,
    ping: value => atMost(unit(Number(value), 'millisecond')),
    speed: value => atLeast(rate(Number(value))),
    time: value => `${words.time} ${span(Number(value))}`,
    works: value => atLeast(percent(Number(value))),
    port: value => `${words.port} ${value}`,
    sort: value => say.named('sort_', value) ?? value,
  }
}

const LISTS: readonly string[] = ['type', 'anon', 'country', 'city', 'service'] satisfies Name[]

function chipsOf({ choice, params, say }: ChipsProps): Chip[] {
  const texts = textsOf(say)
  const isExcept = choice.country_mode === 'except'
  return params.flatMap(([name, value]) => {
    const textOf = texts[name]
    if (textOf === undefined) return []
    if (!LISTS.includes(name)) return [{ id: name, text: textOf(value), change: { [name]: '' } }]
    return itemsOf(value).map(item => {
      const text = textOf(item)
      const isNot = name === 'country' && isExcept
      return {
        id: `${name} ${item}`,
        text: isNot ? fill(say.words.not, { what: text }) : text,
        change: { [name]: toggled(value, item) },
      }
    })
  })
}

function Chips(props: ChipsProps) {
  const { set, say } = props
  const chips = chipsOf(props)
  return (
    <ul class="chips" aria-label={say.words.chosen}>
      {chips.map(({ id, text, change }) => (
        <li key={id}>
          <button
            type="button"
            class="chip"
            aria-label={fill(say.words.remove, { what: text })}
            onClick={() => set(change)}
          >
            <span>{text}</span>
            <svg viewBox="0 0 8 8" aria-hidden="true">
              <path d="M1 1l6 6M7 1l-6 6" />
            </svg>
          </button>
        </li>
      ))}
    </ul>
  )
}

/** The URL in pieces: where, and each parameter. */
function Url({ parts, say }: { parts: RequestParts; say: Say }) {
  const { origin, query } = parts
  const pairs = query === '' ? [] : query.split('&').map(pair => pair.split('='))
  return (
    <p class="address">
      <b aria-hidden="true">GET</b>
      <span class="hidden">{say.words.requestUrl}</span>
      <code id="request-url">
        <span class="t-soft">{origin}</span>/api
        {pairs.map(([name, value], i) => (
          <span key={name}>
            <wbr />
            <span class="t-soft">{i === 0 ? '?' : '&'}</span>
            <span class="t-name">{name}</span>
            <span class="t-soft">=</span>
            <span class="t-string">{value}</span>
          </span>
        ))}
      </code>
    </p>
  )
}

const COPIED_MS = 1800

function Copy({ text, from, say }: { text: string; from: () => HTMLElement | null; say: Say }) {
  const [isCopied, setCopied] = useState(false)
  useSettled(isCopied || null, COPIED_MS, () => setCopied(false))
  return (
    <button
      type="button"
      class="quiet copy"
      onClick={async () => setCopied(await copyText(text, from()))}
    >
      {isCopied ? say.words.copied : say.words.copy}
    </button>
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
    <div class="code">
      <Url parts={parts} say={say} />
      <div class="code-head">
        <Radios
          look="codes"
          name="code"
          label={say.words.code}
          value={code}
          onChange={choose}
          options={CODES.map(name => [name, name])}
        />
        <Copy key={program} text={program} from={() => pre.current} say={say} />
      </div>
      <Scroller name={code}>
        <pre ref={pre} id="code">
          {tokensOf(program).map(({ kind, text }, i) => (
            <span key={`${i} ${text}`} class={`t-${kind}`}>
              {text}
            </span>
          ))}
        </pre>
      </Scroller>
    </div>
  )
}

/** `value` is that of the parameter when it is checked; otherwise it is left out. */
const OPTIONS: readonly { name: Name; value: string; text: string }[] = [
  { name: 'unique', value: '1', text: 'unique' },
  { name: 'type_prefix', value: '1', text: 'type_prefix' },
  { name: 'split_ip', value: '1', text: 'split_ip' },
  { name: 'format', value: 'object', text: 'format=object' },
  { name: 'wrap', value: '1', text: 'wrap' },
  { name: 'pretty', value: '0', text: 'pretty=0' },
]

/** The members of a record, of which some may be chosen. */
function Fields({ choice, set, services, say }: FilterProps) {
  const { words } = say
  const members = [...MEMBERS, 'types', ...services]
  const chosen = itemsOf(choice.fields)
  const isUsable = (member: string): boolean => member !== 'port' || choice.split_ip === '1'
  return (
    <details class="members">
      <summary>
        {words.fields}: {chosen.length === 0 ? words.all : `${chosen.length} / ${members.length}`}
      </summary>
      <div class="member-list">
        {members.filter(isUsable).map(member => (
          <CheckField
            key={member}
            label={<code>{member}</code>}
            name="fields"
            value={member}
            isOn={chosen.includes(member)}
            onChange={() => set({ fields: toggled(choice.fields, member) })}
          />
        ))}
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
      <span class="inline">
        {words.lang}
        <Radios
          name="lang"
          label={words.lang}
          value={LANGS.find(lang => lang === choice.lang) ?? say.lang}
          onChange={lang => set({ lang: lang === say.lang ? '' : lang })}
          options={LANGS.map(lang => [lang, lang.toUpperCase()])}
        />
      </span>
      {OPTIONS.filter(({ name }) => applies(name, form)).map(({ name, value, text }) => (
        <CheckField
          key={name}
          label={<code>{text}</code>}
          name={name}
          value={value}
          isOn={choice[name] === value}
          onChange={isOn => set({ [name]: isOn ? value : '' })}
        />
      ))}
      {applies('line', form) && (
        <label class="inline">
          <code>line</code>
          <input
            class="input"
            name="line"
            maxLength={100}
            autocomplete="off"
            spellcheck={false}
            value={choice.line}
            placeholder="{scheme}://{ip}:{port}"
            aria-invalid={isInvalid('line', choice.line) || undefined}
            onInput={event => set({ line: event.currentTarget.value })}
          />
        </label>
      )}
      {applies('fields', form) && <Fields {...props} />}
    </div>
  )
}

/** Parameters that say how the answer looks: clearing the filters leaves them. */
const OUTPUTS = /^(unique|count|lang|get|type_prefix|line|fields|split_ip|format|wrap|pretty)$/
const isOutput = (name: string): boolean => OUTPUTS.test(name)

type PanelProps = FilterProps &
  TryProps & {
    kind: Known['kind']
    count: ReturnType<typeof matchingOf>
    notes: readonly (string | false | undefined)[]
    params: readonly Param[]
  }

export function Panel(props: PanelProps) {
  const { choice, set, params, query, count, notes, say } = props
  const attempt = useAttempt(props)
  const filters = params.filter(([name]) => !isOutput(name))
  const parts = { origin: location.origin, choice, params, query }
  const clear = (): void =>
    set(Object.fromEntries(Object.entries(START).filter(([name]) => !isOutput(name))))
  return (
    <div class="side">
      <Count count={count} clear={filters.length === 0 ? null : clear} say={say} />
      <aside class="request card" id="request" tabIndex={-1} aria-label={say.words.request}>
        <Chips choice={choice} params={filters} set={set} say={say} />
        {notes.map(note => note && <p class="hint bad">{note}</p>)}
        <RequestCode parts={parts} say={say} />
        <Outputs {...props} />
        <Ask {...props} {...attempt} />
      </aside>
      <Results {...props} {...attempt} />
    </div>
  )
}
