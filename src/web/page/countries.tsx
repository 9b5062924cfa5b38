/**
 * The choice of countries: a map for pointers, with land as dots and countries as circles; and a list with the
 * same choices for keyboards and screen readers.
 */
import { useMemo, useState } from 'preact/hooks'
import type { Facet } from '../../proxies/stats-document.ts'
import { Radios } from '../parts/form.tsx'
import { fill, LANGS, placesIn } from '../parts/format.ts'
import { Card } from '../parts/table.tsx'
import { placeBubbles } from './model/bubbles.ts'
import { itemsOf, toggled } from './model/query.ts'
import { CENTERS, landPath, VIEW } from './model/world.ts'
import { type FilterProps, type Option, Options } from './options.tsx'
import type { Say } from './translations.ts'

const LAND = landPath()
const HIT_RADIUS = 13

/** `chosen` are codes in upper case. */
function WorldMap(props: FilterProps & { chosen: readonly string[] }) {
  const { choice, set, stats, chosen, say } = props
  const counts = stats?.facets.country
  const isExcept = choice.country_mode === 'except'
  // For pointers only: keyboards have the list.
  const pointer = {
    onClick({ target }: Event): void {
      const place = target instanceof Element ? target.closest<SVGElement>('.place') : null
      const code = place?.dataset.code?.toLowerCase()
      if (code !== undefined) set({ country: toggled(choice.country, code) })
    },
  }
  const bubbles = useMemo(() => placeBubbles(new Map(Object.entries(counts ?? {}))), [counts])
  const said = (code: string): string => `${say.country(code)} ${say.number(counts?.[code] ?? 0)}`
  const top = bubbles.slice(0, 5).map(({ code }) => said(code))
  const isIn = (code: string): boolean => chosen.length === 0 || chosen.includes(code) !== isExcept
  return (
    <div class="map" data-chosen={chosen.length > 0 || undefined}>
      <svg
        viewBox={`${VIEW.x} ${VIEW.y} ${VIEW.width} ${VIEW.height}`}
        role="img"
        aria-label={fill(say.words.mapOf, { top: top.join(', ') })}
        {...pointer}
      >
        <path class="land" d={LAND} fill="none" stroke-width={4.3} stroke-linecap="round" />
        {bubbles.map(({ code, x, y, r, isLabelled }) => (
          <g key={code} class="place" data-code={code} data-in={isIn(code) || undefined}>
            <title>{said(code)}</title>
            <circle fill="transparent" cx={x} cy={y} r={Math.max(r, HIT_RADIUS)} />
            <circle class="dot" cx={x} cy={y} r={r} />
            {isLabelled && (
              <text x={x} y={y} text-anchor="middle" dominant-baseline="central">
                {code}
              </text>
            )}
          </g>
        ))}
      </svg>
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
/** Whether a name of the country has this text, in any language of the page. */
function matches({ value }: Option, find: string): boolean {
  if (find === '' || value === find) return true
  if (names.length === 0)
    names = LANGS.flatMap(lang => [placesIn(lang, 'long'), placesIn(lang, 'short')])
  return names.some(each => each.of(value.toUpperCase())?.toLowerCase().includes(find))
}

/** `isPlain`: without counts, all countries are listed. */
export function Countries({ isPlain, ...props }: FilterProps & { isPlain: boolean }) {
  const { choice, set, stats, say } = props
  const whole = props.whole?.facets.country ?? null
  const { words } = say
  const [find, setFind] = useState('')
  const chosen = useMemo(() => itemsOf(choice.country.toUpperCase()), [choice.country])
  const all = useMemo(() => optionsOf(whole, chosen, say), [whole, chosen, say])
  const wanted = find.trim().toLowerCase()
  /** Proxies of unknown countries, which cannot be chosen. */
  const unknown = stats?.facets.country[''] ?? 0
  // Countries without proxies are listed when a search finds them.
  const counted = whole && [...Object.keys(whole), ...chosen]
  const isListed = (option: Option): boolean =>
    wanted !== '' || isPlain || counted?.includes(option.counted ?? '') === true
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
    <Card role="group" title={words.byCountry} end={end}>
      <div class="row geo">
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

/** A button, because a link would replace the hash, which holds the choice. */
function skipCountries(): void {
  document.getElementById('after-countries')?.focus()
}
