/** Owns the choice of countries: the map, and the list of all of them, which can be searched. */
import { useMemo, useState } from 'preact/hooks'
import { Card } from './card.tsx'
import type { Facet, Facets } from './model/facets.ts'
import { type Choice, itemsOf, toggled } from './model/query.ts'
import { MERGED, UNKNOWN_PLACE } from './model/stats.ts'
import { CENTERS } from './model/world.ts'
import { type Option, Options } from './options.tsx'
import { Radios } from './radios.tsx'
import type { Say } from './words/say.ts'
import { WorldMap } from './world-map.tsx'

type CountriesProps = {
  choice: Choice
  set: (change: Partial<Choice>) => void
  facets: Facets | null
  /** Of the whole list: the order of countries, which stays while one chooses. */
  whole: Facets | null
  say: Say
}

/** All countries, by count and then by name: those without a count of their own are merged. */
function optionsOf(whole: Facet | null, chosen: readonly string[], say: Say): Option[] {
  const named = [...(whole?.keys() ?? []), ...CENTERS.keys(), ...chosen]
  const codes = [...new Set(named)].filter(code => /^[A-Z]{2}$/.test(code))
  const options = codes.map(code => ({
    ...{ value: code.toLowerCase(), label: say.country(code), tag: code, counted: code },
  }))
  const countOf = ({ counted }: Option): number => whole?.get(counted ?? '')?.size ?? 0
  const { compare } = new Intl.Collator(say.lang)
  return options.sort((a, b) => countOf(b) - countOf(a) || compare(a.label, b.label))
}

const isUncounted = ({ counted = '' }: Option, whole: Facets | null): boolean =>
  whole !== null && !whole.country.has(counted)

const matches = ({ value, label }: Option, find: string): boolean =>
  find === '' || value === find || label.toLowerCase().includes(find)

/** What is counted without a country of its own; it cannot be chosen. */
function Rest({ counts, say }: { counts: Facet | null; say: Say }) {
  const { words, bound } = say
  const merged = counts?.get(MERGED)
  const unknown = counts?.get(UNKNOWN_PLACE)
  return (
    <dl class="rest">
      {merged !== undefined && merged.size > 0 && (
        <div title={words.mergedHint}>
          <dt>{words.merged}</dt>
          <dd>{bound(merged)}</dd>
        </div>
      )}
      {unknown !== undefined && unknown.size > 0 && (
        <div>
          <dt>{words.unknown}</dt>
          <dd>{bound(unknown)}</dd>
        </div>
      )}
    </dl>
  )
}

const MODES = ['include', 'except'] as const

export function Countries({ choice, set, facets, whole, say }: CountriesProps) {
  const { words } = say
  const [find, setFind] = useState('')
  const chosen = useMemo(() => itemsOf(choice.country.toUpperCase()), [choice.country])
  const isExcept = choice.country_mode === 'except'
  const counts = facets?.country ?? null
  const all = useMemo(() => optionsOf(whole?.country ?? null, chosen, say), [whole, chosen, say])
  const wanted = find.trim().toLowerCase()
  // Without a count of their own, hundreds of countries are not worth a press of Tab each: a search
  // finds them.
  const listed = all
    .filter(option => matches(option, wanted))
    .map(option => ({ ...option, isAside: wanted === '' && isUncounted(option, whole) }))
  const end = (
    <Radios
      name="country_mode"
      label={words.countryMode}
      options={MODES.map(value => ({ value, text: words[value] }))}
      chosen={isExcept ? 'except' : 'include'}
      choose={mode => set({ country_mode: mode })}
    />
  )
  return (
    <Card title={words.map} area="map" end={end}>
      <div class="geo">
        <WorldMap
          counts={counts}
          chosen={chosen}
          isExcept={isExcept}
          toggle={code => set({ country: toggled(choice.country, code.toLowerCase()) })}
          say={say}
        />
        <div class="geo-list">
          <button type="button" class="skip-countries" onClick={skipCountries}>
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
          <div class="scroll">
            <Options
              // A list of its own: nothing moves when the one by name gives way to the one by count.
              key={whole === null}
              name="country"
              options={listed}
              counts={counts}
              value={choice.country}
              choose={country => set({ country })}
              say={say}
            />
            {listed.length === 0 && <p class="nothing">{words.noCountry}</p>}
          </div>
          <Rest counts={counts} say={say} />
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
