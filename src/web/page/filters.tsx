/** The filters: a card for each. */
import { TextField } from '../parts/form.tsx'
import { Card } from '../parts/table.tsx'
import { Countries } from './countries.tsx'
import { Ages, Limit } from './limit.tsx'
import { ANONS, TYPES } from './model/query.ts'
import { type FilterProps, Options } from './options.tsx'

function Place({ choice, set, stats, say }: FilterProps) {
  const { words, lang, number } = say
  const cities = stats?.cities ?? []
  const nameOf = ({ city, city_en }: (typeof cities)[number]): string =>
    lang === 'en' && city_en !== '' ? city_en : city
  const names = new Map(cities.map(city => [nameOf(city), city.count]))
  const field = (name: 'city' | 'port' | 'ip') => ({
    ...{ name, label: words[name], value: choice[name] },
    onChange: (value: string) => set({ [name]: value }),
  })
  const isUncounted = stats !== null && choice.port + choice.ip !== ''
  const example = [...names.keys()][0] ?? (lang === 'ru' ? 'Берлин' : 'Berlin')
  return (
    <Card role="group" title={words.place} hint={isUncounted && words.uncounted}>
      <div class="row">
        <TextField {...field('city')} input={{ placeholder: example, list: 'cities' }} />
        <TextField
          {...field('port')}
          input={{ type: 'number', min: 1, max: 65_535, placeholder: '1080' }}
        />
        <TextField
          {...field('ip')}
          input={{ pattern: '(\\d{1,3}\\.){3}\\d{1,3}:\\d{1,5}', placeholder: '203.0.113.10:1080' }}
        />
        <datalist id="cities">
          {[...names].map(([name, count]) => (
            <option key={name} value={name} label={number(count)} />
          ))}
        </datalist>
      </div>
    </Card>
  )
}

type ListName = 'type' | 'anon' | 'service'

function Lists({ names, ...props }: FilterProps & { names: readonly ListName[] }) {
  const { services } = props
  const { words } = props.say
  const hints: { [service: string]: string } = { smtp: words.smtpHint, google: words.googleHint }
  const lists = {
    type: TYPES.map(value => ({ value, label: value })),
    anon: ANONS.map(value => ({ value, label: words[value], hint: words[`${value}Hint`] })),
    service: services.map(value => ({ value, label: value, hint: hints[value] })),
  }
  return names.map(name => (
    <Card
      role="group"
      key={name}
      title={words[name]}
      hint={name === 'service' && words.serviceHint}
    >
      <Options {...props} name={name} options={lists[name]} />
    </Card>
  ))
}

/** `isPlain`: without counts there are no charts. */
export function Filters({ isPlain, ...props }: FilterProps & { isPlain: boolean }) {
  const { words } = props.say
  return (
    <form
      class="filters"
      data-plain={isPlain || undefined}
      aria-label={words.query}
      onSubmit={event => event.preventDefault()}
    >
      <Lists {...props} names={['type', 'anon']} />
      <Countries {...props} isPlain={isPlain} />
      <Lists {...props} names={['service']} />
      <Card role="group" title={words.time}>
        <Ages {...props} />
      </Card>
      {(['ping', 'works', 'speed'] as const).map(name => (
        <Card role="group" key={name} title={words[name]}>
          <Limit {...props} name={name} />
        </Card>
      ))}
      <Place {...props} />
    </form>
  )
}
