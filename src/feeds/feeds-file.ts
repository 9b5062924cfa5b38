/**
 * The feeds that settings name, reading their file again when the operator asks for it (SIGHUP), and what
 * `doctor` says of them. A file with a mistake changes nothing.
 */
import { statSync } from 'node:fs'
import type { Settings } from '../config/settings.ts'
import { checkMapping } from '../import/names.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { CommandError, reasonOf, unreadable } from '../lib/errors.ts'
import { readNamed } from '../lib/files.ts'
import { problemOf } from '../lib/findings.ts'
import { type Feed, parseFeeds, parseFeedsFile, refuseConflicts } from './feed.ts'
import { filesOf, notRegular, readHeaders } from './fetch.ts'
import type { FeedChanges } from './schedule.ts'
import { describeFailure, isForgotten, type StoredFeed } from './store.ts'

type FeedSettings = Settings<'feed' | 'feeds' | 'feedEvery' | 'providerService'>

async function readFeedsFile(file: string): Promise<string> {
  const what = `the feeds file ${file}`
  const bytes = await readNamed(file, what)
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    if (text.includes('\0')) throw new Error('it has a NUL character, which no text has')
    if (/^\s*</.test(text)) throw new Error('it is a web page, not a list of feeds')
    return text
  } catch (error) {
    throw unreadable(what, error, 2) // a service is not started again: it would not help
  }
}

/** The feeds that the settings name. @throws CommandError (usage) saying what is wrong with them. */
export async function readFeeds(settings: FeedSettings): Promise<Feed[]> {
  const { feed, feeds: file, feedEvery, providerService: provider } = settings
  const feeds = [
    ...(feed === undefined ? [] : parseFeeds(feed, feedEvery, '--feed')),
    ...(file === undefined ? [] : parseFeedsFile(await readFeedsFile(file), feedEvery, file)),
  ]
  checkFeeds(feeds, provider)
  return feeds
}

/** @throws CommandError (usage) when a feed maps to what is no field, or cannot be beside another one. */
export function checkFeeds(feeds: readonly Feed[], provider: string): void {
  refuseConflicts(feeds)
  for (const { shown, mapping } of feeds) {
    checkMapping(new Map(mapping), provider, `feed ${shown}: map`)
  }
}

/** The feeds of the console, of their text. @throws CommandError (usage). */
export const parseFeedLines = (lines: string, everyMs: number): Feed[] =>
  parseFeedsFile(lines, everyMs, 'console-feeds', 'console')

const idOfLine = (line: string): string | undefined => {
  try {
    return parseFeedLines(line, 0)[0]?.id
  } catch {
    return undefined // an operator has written it
  }
}

/** The feeds of the console with this line in the place of that of a feed, or without; others stay. */
export function withLine(lines: string, id: string, line: string | null): string {
  const all = lines.split('\n')
  if (all.at(-1) === '') all.pop()
  const at = all.findIndex(each => idOfLine(each) === id)
  if (at >= 0) all.splice(at, 1, ...(line === null ? [] : [line]))
  else if (line !== null) all.push(line)
  return all.map(each => `${each}\n`).join('')
}

/** All feeds: a source that settings name is not one of the console, too. @throws CommandError. */
function combine(own: readonly Feed[], lines: string, settings: FeedSettings): Feed[] {
  const added = parseFeedLines(lines, settings.feedEvery)
  const feeds = [...own, ...added.filter(({ id }) => !own.some(feed => feed.id === id))]
  checkFeeds(feeds, settings.providerService)
  return feeds
}

type Take = (feeds: readonly Feed[]) => Awaitable<FeedChanges>

export type CurrentFeeds = Awaited<ReturnType<typeof loadCurrentFeeds>>

/** The feeds of a server, as they were last read. @throws CommandError (usage), at first. */
export async function loadCurrentFeeds(settings: FeedSettings, say: (sentence: string) => void) {
  let own = await readFeeds(settings)
  let lines = ''
  let problem: string | null = null
  let feeds: readonly Feed[] = own
  let take: Take | null = null

  /** Makes these the feeds, without those of the console where they cannot be. */
  async function apply(): Promise<FeedChanges | undefined> {
    const before = problem
    try {
      feeds = combine(own, lines, settings)
      problem = null
    } catch (error) {
      if (!(error instanceof CommandError)) throw error
      feeds = own
      problem = `${error.message}; the feeds of the console are left out`
      if (problem !== before) say(problem)
    }
    return take?.(feeds)
  }

  async function readAgain(): Promise<void> {
    try {
      own = await readFeeds(settings)
      const changes = await apply()
      const parts = Object.entries(changes ?? {}).filter(([, count]) => count > 0)
      const what = parts.map(([change, count]) => `${count} ${change}`).join(', ')
      say(`${settings.feeds} was read again: ${what || 'no feed changed'}`)
    } catch (error) {
      if (!(error instanceof CommandError)) throw error
      say(`${error.message}; the feeds stay as they were`)
    }
  }

  let last = Promise.resolve()
  /** Does a piece of work after the one before it. */
  function inTurn(work: () => Promise<unknown>): Promise<void> {
    const done = last.then(async () => void (await work()))
    last = done.catch(() => {}) // said where it is waited for
    return done
  }

  return {
    settings,
    current: (): readonly Feed[] => feeds,
    /** Why the feeds of the console are left out; `null`: they are not. */
    problem: (): string | null => problem,
    /** Takes the feeds of the console, after what is being read. */
    useLines: (text: string): Promise<void> =>
      inTurn(async () => {
        if (text === lines) return
        lines = text
        await apply()
      }),
    /** Calls `next` with the feeds whenever they were read again, until `null` is given. */
    onChange(next: Take | null): void {
      take = next
    },
    /** Reads the file again, if there is one, after what is being read. */
    reload: (): Promise<void> => (settings.feeds === undefined ? last : inTurn(readAgain)),
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
 * The problems of the feeds of settings and console (`lines`); `states`: of their last attempts. Those of others
 * are notes where the settings name any, or nobody has tried them since they were due: a server may have had
 * them once.
 */
export async function feedProblems(
  settings: FeedSettings,
  lines: string,
  states: readonly StoredFeed[],
  nowMs: number,
): Promise<{ problems: string[]; notes: string[] }> {
  let feeds: readonly Feed[] | null = null
  const unread: string[] = []
  try {
    feeds = await readFeeds(settings)
    feeds = combine(feeds, lines, settings)
  } catch (error) {
    unread.push(reasonOf(error))
  }
  const isConfigured = feeds !== null && (settings.feed ?? settings.feeds) !== undefined
  const known = feeds ?? []
  const hasSecrets = known.some(
    ({ from, kind, source, shown }) => from === 'file' && kind === 'url' && source !== shown,
  )
  const found = (await Promise.all(known.map(problemsOf))).flat()
  /** Whether this feed cannot be read now, whatever its last attempt said. */
  const isNamed = (source: string): boolean => found.some(it => it.startsWith(`feed ${source}: `))
  const feedOf = ({ id }: StoredFeed): Feed | undefined => known.find(feed => feed.id === id)
  const isFormer = (state: StoredFeed): boolean =>
    (isConfigured || isForgotten(state, nowMs)) && feedOf(state) === undefined
  const failed = states.filter(
    state => state.error !== '' && !isNamed(state.source) && !feedOf(state)?.isPaused,
  )
  return {
    problems: [
      ...unread,
      ...(settings.feeds !== undefined && hasSecrets ? openToOthers(settings.feeds) : []),
      ...found,
      ...failed.filter(state => !isFormer(state)).map(describeFailure),
    ],
    notes: failed
      .filter(isFormer)
      .map(state => `${describeFailure(state)}; no setting names it here`),
  }
}
