/** The feeds of `--feed` and of the feeds file, which the server reads again when it changes. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Settings } from '../config/settings.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, unreadable } from '../lib/errors.ts'
import { requireRegular } from '../lib/files.ts'
import { problemOf } from '../lib/findings.ts'
import { several } from '../lib/plural.ts'
import { checkFeeds, type Feed, parseFeeds, parseFeedsFile } from './feed.ts'
import { readHeaders } from './fetch.ts'
import { describeFailure, type StoredFeed } from './store.ts'

type FeedSettings = Settings<'data' | 'feed' | 'feeds' | 'feedEvery' | 'providerService'>

/** The name of the feeds file in a data directory. */
export const FEEDS_NAME = 'feeds'

/** The path of the feeds file. */
export const feedsFileOf = ({ data, feeds }: Pick<FeedSettings, 'data' | 'feeds'>): string =>
  feeds ?? join(data, FEEDS_NAME)

/** The text of the feeds file; `''` if the default file does not exist. @throws CommandError */
export function readFeedsFile(settings: Pick<FeedSettings, 'data' | 'feeds'>): string {
  const file = feedsFileOf(settings)
  if (settings.feeds === undefined && !existsSync(file)) return ''
  const what = `the feeds file ${file}`
  let bytes: Uint8Array
  try {
    requireRegular(statSync(file))
    bytes = readFileSync(file)
  } catch (error) {
    throw unreadable(what, error) // exit status 1: systemd tries again later
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw unreadable(what, error, 2)
  }
}

/** The feeds of `--feed` and of the text of a feeds file. If both name a source, `--feed` wins. */
export function parseAllFeeds(settings: FeedSettings, text: string): Feed[] {
  const { feed, feedEvery, providerService } = settings
  const given = feed === undefined ? [] : parseFeeds(feed, feedEvery, '--feed')
  const inFile = parseFeedsFile(text, feedEvery, feedsFileOf(settings))
  const feeds = [...given, ...inFile.filter(({ id }) => !given.some(feed => feed.id === id))]
  checkFeeds(feeds, providerService)
  return feeds
}

/** The feed in a line of a feeds file; `undefined` for a comment and for a line with a mistake. */
function feedOfLine(line: string): Feed | undefined {
  try {
    return parseFeedsFile(line, 0, '')[0]
  } catch {
    return undefined
  }
}

/** Replaces or adds the line of a feed in the text of a feeds file; `null` removes it. */
export function withLine(text: string, id: string, line: string | null): string {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  const at = lines.findIndex(each => feedOfLine(each)?.id === id)
  if (at >= 0) lines.splice(at, 1, ...(line === null ? [] : [line]))
  else if (line !== null) lines.push(line)
  return lines.map(each => `${each}\n`).join('')
}

export type CurrentFeeds = ReturnType<typeof loadCurrentFeeds>

/** Reads the feeds of a server, now and on `reload`. @throws CommandError if they cannot be read now. */
export function loadCurrentFeeds(settings: FeedSettings, say: (sentence: string) => void) {
  const file = feedsFileOf(settings)
  let text = readFeedsFile(settings)
  let feeds: readonly Feed[] = parseAllFeeds(settings, text)
  let problem: string | null = null
  let onChange: ((feeds: readonly Feed[]) => Awaitable<void>) | null = null

  return {
    settings,
    current: (): readonly Feed[] => feeds,
    /** Why the current file cannot be used; `null` if it can. */
    problem: (): string | null => problem,
    /** Registers the function that is called with changed feeds. */
    onChange(next: typeof onChange): void {
      onChange = next
    },
    /** Reads the file again. After a failure, the feeds stay. `isAsked`: reports the result in any case. */
    async reload(isAsked = false): Promise<void> {
      const before = { text, feeds }
      try {
        const now = readFeedsFile(settings)
        if (now === text && problem === null && !isAsked) return
        feeds = parseAllFeeds(settings, now)
        text = now
        problem = null
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        if (error.message !== problem || isAsked)
          say(`${error.message}; the feeds stay as they were`)
        problem = error.message
        return
      }
      try {
        await onChange?.(feeds)
      } catch (failure) {
        ;({ text, feeds } = before)
        throw failure
      }
      say(`${file} was read again: ${several(feeds.length, 'feed')}`)
    },
  }
}

function openToOthers(file: string): string[] {
  if (file.startsWith('/run/credentials/')) return [] // systemd protects them by access lists
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  return (mode & 0o077) === 0 ? [] : [`${file} is open to others; chmod 600`]
}

/** The problems of the configured feeds, and the failures of their last attempts. */
export async function feedProblems(
  settings: FeedSettings,
  states: readonly StoredFeed[],
): Promise<string[]> {
  let feeds: readonly Feed[] = []
  const unread = await problemOf(() => {
    feeds = parseAllFeeds(settings, readFeedsFile(settings))
  })
  const headers = feeds.flatMap(({ headersFile }) => headersFile ?? [])
  const unusable = await Promise.all(headers.map(file => problemOf(() => readHeaders(file))))
  const hasSecrets = feeds.some(({ from, source, shown }) => from === 'file' && source !== shown)
  /** Without feeds in these settings, the server may have other settings: then all failures count. */
  const isNamed = ({ id }: StoredFeed): boolean =>
    feeds.length === 0 || feeds.some(feed => feed.id === id)
  return [
    ...unread,
    ...unusable.flat(),
    ...[...(hasSecrets ? [feedsFileOf(settings)] : []), ...headers].flatMap(openToOthers),
    ...states.filter(state => state.error !== '' && isNamed(state)).map(describeFailure),
  ]
}
