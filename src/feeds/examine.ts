/** What `doctor` says of feeds: their files, and what failed last. */
import { statSync } from 'node:fs'
import type { Settings } from '../config/settings.ts'
import { reasonOf } from '../lib/errors.ts'
import { problemOf } from '../lib/examination.ts'
import type { Feed } from './feed.ts'
import { readFeeds } from './feeds-file.ts'
import { readHeaders } from './fetch.ts'
import type { FeedState } from './store.ts'

/** Where systemd puts the credentials of a service, with access lists that their modes do not show. */
const CREDENTIALS = '/run/credentials/'

function openToOthers(file: string): string[] {
  if (file.startsWith(CREDENTIALS)) return []
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  return (mode & 0o077) === 0 ? [] : [`${file} is open to others; chmod 600`]
}

/** What is wrong with a feed as it is written, before it is fetched. */
function problemsOf({ kind, source, shown, headersFile }: Feed): string[] {
  const path = kind === 'path' ? problemOf(() => statSync(source)) : []
  if (headersFile === null) return path.map(reason => `feed ${shown}: ${reason}`)
  const headers = problemOf(() => readHeaders(headersFile))
  return [...headers, ...openToOthers(headersFile)]
}

/** The problems of the feeds that the settings name; `states`: of their last attempts. */
export async function feedProblems(
  settings: Settings<'feed' | 'feeds' | 'feedEvery' | 'providerService'>,
  states: readonly FeedState[],
): Promise<string[]> {
  let feeds: readonly Feed[] = []
  const unread: string[] = []
  try {
    feeds = await readFeeds(settings)
  } catch (error) {
    unread.push(reasonOf(error))
  }
  const hasSecrets = feeds.some(({ kind, source, shown }) => kind === 'url' && source !== shown)
  const found = feeds.flatMap(problemsOf)
  /** Whether this feed cannot be read now, whatever its last attempt said. */
  const isNamed = (source: string): boolean => found.some(it => it.startsWith(`feed ${source}: `))
  return [
    ...unread,
    ...(settings.feeds !== undefined && hasSecrets ? openToOthers(settings.feeds) : []),
    ...found,
    ...states
      .filter(({ source, error }) => error !== '' && !isNamed(source))
      .map(({ source, error }) => `feed ${source}: ${error}`),
  ]
}
