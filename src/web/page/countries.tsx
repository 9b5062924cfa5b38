/**
 * The choice of countries: the map, land in dots and countries as circles, which is for pointers; and the
 * list of all of them, which has the same choices for keyboards and screen readers.
 */
import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { Facet } from '../../proxies/stats-document.ts'
import { Radios } from '../parts/form.tsx'
import { fill, LANGS, placesIn } from '../parts/format.ts'
import { type Bubble, placeBubbles } from './model/bubbles.ts'
import { itemsOf, toggled } from './model/query.ts'
import { CENTERS, landPath, VIEW } from './model/world.ts'
import { Card, type FilterProps, type Option, Options } from './options.tsx'
import type { Say } from './translations.ts'

const LAND = landPath()
const HIT_RADIUS = 13

/** A name and a count beside the circle that the pointer is over; inside the map at its edges. */
function Tip({ bubble: { x, y, r }, children }: { bubble: Bubble; children: ComponentChildren }) {
  const left = ((x - VIEW.x) / VIEW.width) * 100
  const top = ((y - r - VIEW.y) / VIEW.height) * 100
  return (
    <div class="tip" style={{ left: `${Math.min(88, Math.max(12, left))}%`, top: `${top}%` }}>
      {children}
    </div>
  )
}

const codeAt = ({ target }: Event): string | null =>
  target instanceof Element ? (target.closest('.place')?.getAttribute('data-code') ?? null) : null

/** `chosen` are codes in upper case. */
function WorldMap(props: FilterProps & { chosen: readonly string[] }) {
  const { choice, set, stats, chosen, say } = props
  const counts = stats?.facets.country
  const isExcept = choice.country_mode === 'except'
  const [over, setOver] = useState<string | null>(null)
  // For pointers alone: keyboards have the list.
  const pointer = {
    onPointerOver: (event: Event) => setOver(codeAt(event)),
    onPointerLeave: () => setOver(null),
    onClick(event: Event) {
      const code = codeAt(event)
      if (code !== null) set({ country: toggled(choice.country, code.toLowerCase()) })
    },
  }
  const bubbles = useMemo(() => placeBubbles(new Map(Object.entries(counts ?? {}))), [counts])
  const said = (code: string): string => `${say.country(code)} ${say.number(counts?.[code] ?? 0)}`
  const top = bubbles.slice(0, 5).map(({ code }) => said(code))
  const pointed = bubbles.find(({ code }) => code === over)
  const isIn = (code: string): boolean => chosen.length === 0 || chosen.includes(code) !== isExcept
  return (
    <div class="map" data-chosen={chosen.length > 0 || undefined}>
      <svg
        viewBox={`${VIEW.x} ${VIEW.y} ${VIEW.width} ${VIEW.height}`}
        role="img"
        aria-label={fill(say.words.mapOf, { top: top.join(', ') })}
        {...pointer}
      >
        <path class="land" d={LAND} />
        {bubbles.map(({ code, x, y, r, isLabelled }) => (
          <g key={code} class="place" data-code={code} data-in={isIn(code) || undefined}>
            <circle class="hit" cx={x} cy={y} r={Math.max(r, HIT_RADIUS)} />
            <circle class="dot" cx={x} cy={y} r={r} />
            {isLabelled && (
              <text x={x} y={y}>
                {code}
              </text>
            )}
          </g>
        ))}
      </svg>
      {pointed && <Tip bubble={pointed}>{said(pointed.code)}</Tip>}
    </div>
  )
}

/** All countries, by count and then by name. */
function optionsOf(whole: Facet | null, chosen: readonly string[], say: Say): Option[] {
  const named = [...Object.keys(whole ?? {}), ...CENTERS.keys(), ...chosen]
  const codes = [...new Set(named)].filter(code => /^[A-Z]{2}$/.test(code))
  const options = codes.map(code => ({
    ...{ value: code.toLowerCase(), label: say.country(code), tag: code, counted: code },
  }))
  const countOf = ({ counted }: Option): number => whole?.[counted ?? ''] ?? 0
  const { compare } = new Intl.Collator(say.lang)
  return options.sort((a, b) => countOf(b) - countOf(a) || compare(a.label, b.label))
}

let names: readonly Intl.DisplayNames[] = []
/** Whether a country has a name with this text, in any of our languages. */
function matches({ value }: Option, find: string): boolean {
  if (find === '' || value === find) return true
  if (names.length === 0)
    names = LANGS.flatMap(lang => [placesIn(lang, 'long'), placesIn(lang, 'short')])
  return names.some(each => each.of(value.toUpperCase())?.toLowerCase().includes(find))
}

/** `isPlain`: there are no counts, and all are listed. */
export function Countries({ isPlain, ...props }: FilterProps & { isPlain: boolean }) {
  const { choice, set, stats, say } = props
  const whole = props.whole?.facets.country ?? null
  const { words } = say
  const [find, setFind] = useState('')
  const chosen = useMemo(() => itemsOf(choice.country.toUpperCase()), [choice.country])
  const all = useMemo(() => optionsOf(whole, chosen, say), [whole, chosen, say])
  const wanted = find.trim().toLowerCase()
  /** It cannot be chosen. */
  const unknown = stats?.facets.country[''] ?? 0
  // Of hundreds of countries, a search finds those that the list has none of.
  const counted = [...Object.keys(whole ?? {}).filter(code => code !== ''), ...chosen]
  const isListed = (option: Option): boolean =>
    wanted !== '' || isPlain || counted.includes(option.counted ?? '')
  const listed = all.filter(option => isListed(option) && matches(option, wanted))
  const end = (
    <Radios
      name="country_mode"
      label={words.countryMode}
      value={choice.country_mode === 'except' ? 'except' : 'include'}
      onChange={mode => set({ country_mode: mode })}
      options={[
        ['include', words.include],
        ['except', words.except],
      ]}
    />
  )
  return (
    <Card title={words.byCountry} end={end}>
      <div class="geo">
        <WorldMap {...props} chosen={chosen} />
        <div class="geo-list">
          <button type="button" class="skip" onClick={skipCountries}>
            {words.skipCountries}
          </button>
          <input
            type="search"
            class="input"
            value={find}
            placeholder={words.findCountry}
            aria-label={words.findCountry}
            onInput={event => setFind(event.currentTarget.value)}
          />
          <div class="scroller">
            <Options {...props} name="country" options={listed} />
            {wanted !== '' && listed.length === 0 && <p class="soft">{words.noCountry}</p>}
          </div>
          <p class="rest">
            {unknown > 0 && (
              <>
                {words.unknown} <span>{say.number(unknown)}</span>
              </>
            )}
          </p>
        </div>
      </div>
      <span id="after-countries" tabIndex={-1} />
    </Card>
  )
}

/** The hash holds the choice, so this is no link. */
function skipCountries(): void {
  document.getElementById('after-countries')?.focus()
}
