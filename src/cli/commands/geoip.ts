/** `geoip apply`. */
import { ipOutOf } from '../../api/render.ts'
import { openGeoip } from '../../import/geoip.ts'
import { CommandError, nextTurn } from '../../lib/errors.ts'
import { EVERYTHING } from '../../proxies/filter.ts'
import { type IncomingProxy, SERVICE_SETS } from '../../proxies/proxy.ts'
import { AT, type CityNames, countryText, type Row, toAddress } from '../../proxies/row.ts'
import { storesOf } from '../../stores.ts'
import { command, DATA_SETTINGS, printJson, say, yieldToServer } from '../command.ts'

/** Rows between two turns of the event loop. */
const TURN_ROWS = 4096

const NO_SERVICES = SERVICE_SETS[0] ?? new Set()

/** A stored row as one to import, which says no more than its address, types, check and place. */
function toIncoming(row: Row, cityNames: CityNames): IncomingProxy {
  const { name, nameEn } = cityNames(row[AT.city])
  return {
    ...toAddress(row[AT.id]),
    types: row[AT.types],
    checkedAt: row[AT.checkedAt],
    ipOut: ipOutOf(row),
    anon: '',
    speed: null,
    pingMs: null,
    country: countryText(row[AT.country]),
    city: name,
    cityEn: nameEn,
    works: null,
    services: NO_SERVICES,
    servicesStated: NO_SERVICES,
  }
}

export const geoipCommand = command({
  name: 'geoip apply',
  summary: 'fill in missing countries and cities of the list',
  settings: [...DATA_SETTINGS, 'geoip', 'json'],
  example: 'proxylist geoip apply --geoip GeoLite2-City.mmdb',
  endsAtSignal: 'by itself',
  kept: 'the list is as it was',
  async run({ settings, clock, signal }) {
    const { geoip, json } = settings
    if (geoip.length === 0) throw new CommandError('name a database with --geoip', 2)
    const place = await openGeoip(geoip)
    yieldToServer()
    const counts = await storesOf(settings, clock).changeList(async list => {
      const rows = [...list.pages(EVERYTHING, clock())].flat()
      const importTx = list.begin('merge', () => say('another import has locked the list; waiting'))
      let filled = 0
      try {
        await importTx.lock(signal)
        for (const [at, row] of rows.entries()) {
          if (at % TURN_ROWS === 0) {
            await nextTurn(signal)
            await importTx.drained?.()
          }
          const proxy = toIncoming(row, list.cityNames)
          const placed = place(proxy)
          const { country, city, cityEn } = placed
          if (country === proxy.country && city === proxy.city && cityEn === proxy.cityEn) continue
          importTx.add(placed)
          filled += 1
        }
        await nextTurn(signal)
        await importTx.commit()
        return { rows: rows.length, filled }
      } catch (error) {
        await importTx.rollback()
        throw error
      }
    })
    if (json) return printJson(counts)
    say(`filled in the place of ${counts.filled} of ${counts.rows} proxies`)
  },
})
