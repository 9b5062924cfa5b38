/** Owns the settings of feeds and of places, a part of the table in `settings.ts`. */
import { readFeedInterval, readFile, readFiles, readSources, readSwitch } from './parsers.ts'
import { optional, setting } from './setting.ts'

export const FEED_SETTINGS = {
  feed: optional({
    value: 'SOURCE',
    help: 'import this file, directory or URL again and again; repeatable',
    isRepeatable: true,
    read: readSources,
  }),
  feeds: optional({
    value: 'FILE',
    help: 'file of feeds, one a line: SOURCE [type=T] [format=F] [ping-unit=ms] [map=COLUMN=FIELD] [every=60s] [replace] [headers=FILE]',
    read: readFile,
  }),
  feedEvery: setting({
    value: 'DURATION',
    fallback: '60s',
    help: 'interval of feeds that name none, from 1s to 7d',
    read: readFeedInterval,
  }),
  due: setting({ help: 'skip feeds that are not due yet', read: readSwitch }),
  geoip: setting({
    value: 'FILE.mmdb',
    fallback: '',
    help: 'City or Country database that fills in missing places; repeatable, or with commas',
    isRepeatable: true,
    read: readFiles,
  }),
} as const
