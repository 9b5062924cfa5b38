/**
 * The feeds that settings name, reading their file again when the operator asks for it (SIGHUP), and what
 * `doctor` says of them. A file with a mistake changes nothing.
 */
import { statSync } from 'node:fs'
import type { Settings } from '../config/settings.ts'
import { checkMapping } from '../import/columns.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, reasonOf, unreadable } from '../lib/errors.ts'
import { problemOf } from '../lib/examination.ts'
import { readRegularFile } from '../lib/files.ts'
import { HOUR_MS } from '../lib/time.ts'
import { type Feed, parseFeeds, parseFeedsFile, refuseConflicts } from './feed.ts'
import { filesOf, notRegular, readHeaders } from './fetch.ts'
import type { FeedChanges } from './schedule.ts'
import type { FeedState } from './store.ts'

type FeedSettings = Settings<'feed' | 'feeds' | 'feedEvery' | 'providerService'>

async function readFeedsFile(file: string): Promise<string> {
  try {
    const bytes = await readRegularFile(file)
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    if (text.includes('\0')) throw new Error('it has a NUL character, which no text has')
    if (/^\s*</.test(text)) throw new Error('it is a web page, not a list of feeds')
    return text
  } catch (error) {
    throw unreadable(`the feeds file ${file}`, error, 2)
  }
}

/** The feeds that the settings name. @throws CommandError (usage) saying what is wrong with them. */
export async function readFeeds(settings: FeedSettings): Promise<Feed[]> {
  const { feed, feeds: file, feedEvery, providerService: provider } = settings
  const feeds = [
    ...(feed === undefined ? [] : parseFeeds(feed, feedEvery, '--feed')),
    ...(file === undefined ? [] : parseFeedsFile(await readFeedsFile(file), feedEvery, file)),
  ]
  refuseConflicts(feeds)
  for (const { shown, mapping } of feeds) {
    checkMapping(new Map(mapping), provider, `feed ${shown}: map`)
  }
  return feeds
}

type Take = (feeds: readonly Feed[]) => Awaitable<FeedChanges>

export type CurrentFeeds = Awaited<ReturnType<typeof loadCurrentFeeds>>

/** The feeds of a server, as they were last read. @throws CommandError (usage), at first. */
export async function loadCurrentFeeds(settings: FeedSettings, say: (sentence: string) => void) {
  let feeds = await readFeeds(settings)
  let take: Take | null = null

  async function readAgain(): Promise<void> {
    try {
      feeds = await readFeeds(settings)
      const changes = await take?.(feeds)
      const parts = Object.entries(changes ?? {}).filter(([, count]) => count > 0)
      const what = parts.map(([change, count]) => `${count} ${change}`).join(', ')
      say(`${settings.feeds} was read again: ${what || 'no feed changed'}`)
    } catch (error) {
      if (!(error instanceof CommandError)) throw error
      say(`${error.message}; the feeds stay as they were`)
    }
  }

  let last = Promise.resolve()
  return {
    current: (): readonly Feed[] => feeds,
    /** Calls `next` with the feeds whenever they were read again, until `null` is given. */
    onChange(next: Take | null): void {
      take = next
    },
    /** Reads the file again, if there is one, after what is being read. */
    reload(): Promise<void> {
      if (settings.feeds !== undefined) last = last.then(readAgain)
      return last
    },
  }
}

/** Where systemd puts the credentials of a service, with access lists that their modes do not show. */
const CREDENTIALS = '/run/credentials/'

function openToOthers(file: string): string[] {
  if (file.startsWith(CREDENTIALS)) return []
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  return (mode & 0o077) === 0 ? [] : [`${file} is open to others; chmod 600`]
}

/** What is wrong with a feed as it is written, before it is fetched. */
async function problemsOf({ kind, source, shown, headersFile }: Feed): Promise<string[]> {
  if (headersFile !== null) {
    const headers = await problemOf(() => readHeaders(headersFile))
    return [...headers, ...openToOthers(headersFile)]
  }
  if (kind === 'url') return []
  let skipped: readonly string[] = []
  const path = await problemOf(async () => {
    skipped = (await filesOf(source)).skipped.map(notRegular)
  })
  return [...path, ...skipped].map(reason => `feed ${shown}: ${reason}`)
}

/**
 * The problems of the feeds that the settings name; `states`: of their last attempts. Those of others are notes
 * where the settings name any, or nobody has tried them since they were due: a server may have had them once.
 */
export async function feedProblems(
  settings: FeedSettings,
  states: readonly FeedState[],
  nowMs: number,
): Promise<{ problems: string[]; notes: string[] }> {
  let feeds: readonly Feed[] | null = null
  const unread: string[] = []
  try {
    feeds = await readFeeds(settings)
  } catch (error) {
    unread.push(reasonOf(error))
  }
  const isConfigured = feeds !== null && (settings.feed ?? settings.feeds) !== undefined
  const known = feeds ?? []
  const hasSecrets = known.some(({ kind, source, shown }) => kind === 'url' && source !== shown)
  const found = (await Promise.all(known.map(problemsOf))).flat()
  /** Whether this feed cannot be read now, whatever its last attempt said. */
  const isNamed = (source: string): boolean => found.some(it => it.startsWith(`feed ${source}: `))
  const isFormer = ({ source, nextTryAt }: FeedState): boolean =>
    (isConfigured || nowMs - nextTryAt > HOUR_MS) && !known.some(({ shown }) => shown === source)
  const failed = states.filter(({ source, error }) => error !== '' && !isNamed(source))
  const say = ({ source, error }: FeedState): string => `feed ${source}: ${error}`
  return {
    problems: [
      ...unread,
      ...(settings.feeds !== undefined && hasSecrets ? openToOthers(settings.feeds) : []),
      ...found,
      ...failed.filter(state => !isFormer(state)).map(say),
    ],
    notes: failed.filter(isFormer).map(state => `${say(state)}; no setting names it here`),
  }
}
