/** Owns the settings of pages, statistics and metrics, a part of the table in `settings.ts`. */
import { readListen, readOneOf, readSwitch } from './parsers.ts'
import { optional, setting } from './setting.ts'

export const PAGE_SETTINGS = {
  page: setting({
    value: 'STATE',
    fallback: 'on',
    help: 'on or off; off serves neither the page at / nor /docs',
    read: readOneOf(['on', 'off']),
  }),
  publicStats: setting({
    value: 'PART',
    fallback: 'full',
    help: 'what /stats says of the list without a key: full, totals (no cube and no cities) or off',
    read: readOneOf(['full', 'totals', 'off']),
  }),
  adminListen: optional({
    value: 'ADDRESS',
    help: 'where the console and /metrics listen, in the forms of --listen; without it they are off',
    read: readListen,
  }),
  metricsOpen: setting({
    help: 'answer /metrics of the admin listener without a token',
    read: readSwitch,
  }),
} as const
