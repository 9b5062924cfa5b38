/** The examination of feeds and of databases of places: their files, and what failed last. */
import { statSync } from 'node:fs'
import type { Environment } from '../config/environment.ts'
import { readSettings } from '../config/settings.ts'
import type { Feed } from '../feeds/feed.ts'
import { readFeeds } from '../feeds/feeds-file.ts'
import { readHeaders } from '../feeds/fetch.ts'
import type { FeedState } from '../feeds/store.ts'
import { openGeoip } from '../import/geoip.ts'
import { reasonOf } from '../lib/errors.ts'

/** What goes wrong in `work`, as a sentence. */
function problemOf(work: () => unknown): string[] {
  try {
    work()
    return []
  } catch (error) {
    return [reasonOf(error)]
  }
}

/** Where systemd puts the credentials of a service, with access lists that their modes do not show. */
const CREDENTIALS = '/run/credentials/'

/** A file with secrets that others can read. */
function openToOthers(file: string): string[] {
  if (file.startsWith(CREDENTIALS)) return []
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  return (mode & 0o077) === 0 ? [] : [`${file} is open to others; chmod 600`]
}

/** What is wrong with a feed as it is written, before it is fetched. */
function feedProblems({ kind, source, shown, headersFile }: Feed): string[] {
  const path = kind === 'path' ? problemOf(() => statSync(source)) : []
  if (headersFile === null) return path.map(reason => `feed ${shown}: ${reason}`)
  const headers = problemOf(() => readHeaders(headersFile))
  return [...headers, ...openToOthers(headersFile)]
}

/** The problems of the feeds and the databases of places that the environment names; `states`: of their last attempts. */
export async function sourceProblems(
  env: Environment,
  states: readonly FeedState[],
): Promise<string[]> {
  const names = ['feed', 'feeds', 'feedEvery', 'geoip', 'providerService'] as const
  const settings = readSettings(names, {}, env)
  let feeds: Feed[] = []
  const unread: string[] = []
  try {
    feeds = await readFeeds(settings)
  } catch (error) {
    unread.push(reasonOf(error))
  }
  const hasSecrets = feeds.some(({ kind, source, shown }) => kind === 'url' && source !== shown)
  const found = feeds.flatMap(feedProblems)
  /** Whether this feed cannot be read now, whatever its last attempt said. */
  const isNamed = (source: string): boolean => found.some(it => it.startsWith(`feed ${source}: `))
  return [
    ...unread,
    ...(settings.feeds !== undefined && hasSecrets ? openToOthers(settings.feeds) : []),
    ...found,
    ...settings.geoip.flatMap(file => problemOf(() => openGeoip([file]))),
    ...states
      .filter(({ source, error }) => error !== '' && !isNamed(source))
      .map(({ source, error }) => `feed ${source}: ${error}`),
  ]
}
