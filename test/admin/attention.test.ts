/** Tests of what needs attention of a running service: each reason appears and goes again, everywhere. */
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { CheckerStatus } from '../../src/checker/ports.ts'
import { readSettings } from '../../src/config/settings.ts'
import { EXAMINED, examine } from '../../src/doctor.ts'
import { REASONS } from '../../src/metrics/attention.ts'
import { openCandidates } from '../../src/sqlite/candidates.ts'
import { withFeeds } from '../../src/sqlite/stores.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { smallDisk } from '../support/disk.ts'
import { FEED, FEED_STATE } from '../support/feeds.ts'
import { ASK, addList, dataDirectory, T0 } from '../support/fixtures.ts'
import { samplesOf } from '../support/metrics.ts'
import { cleanUp } from '../support/temporary.ts'
import { until } from '../support/until.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)

const DAY = 86_400

/** A service on `dir`, and its sentences for one reason. */
function watched(dir: string, reason: string) {
  const service = startConsole(dir)
  let seconds = 0
  const ids = service.registry.keys.list(T0)
  const sentences = (found: { reason: string; sentence: string }[]) =>
    found.filter(each => each.reason === reason).map(({ sentence }) => sentence)
  return {
    ...service,
    dir,
    /** Lets time pass, or go back, so that the service reads again. */
    pass(more = 10): void {
      seconds += more
      service.setClock(seconds)
    },
    /** Changes the only key. */
    async change(json: object, what = ''): Promise<void> {
      const [{ id = '' } = {}] = await ids
      const answer = await service.ask(`/console/keys/${id}${what}`, { method: 'POST', json })
      expect(answer.status).toBe(200)
    },
    /** What the console says. */
    async said(): Promise<string[]> {
      await new Promise(setImmediate) // a request is a turn of its own
      return sentences((await service.value('/console/state')).attention)
    },
    /** The values of the metric. All scrapes within a second have one text. */
    async scraped() {
      const { text } = await service.ask('/metrics')
      const samples = samplesOf(text).filter(({ name }) => name === 'proxylist_attention')
      expect(samples.map(({ labels }) => labels)).toEqual(REASONS.map(each => ({ reason: each })))
      return samples.find(({ labels }) => labels.reason === reason)?.value
    },
    /** What `doctor` finds that is not simply right. */
    async examined(): Promise<string> {
      const settings = readSettings(EXAMINED, { data: dir }, {})
      const nowMs = T0 + seconds * 1000
      const found = await examine(settings, {}, () => nowMs, new AbortController().signal)
      return found
        .filter(({ ok, note }) => !ok || note)
        .map(each => each.found)
        .join('; ')
    },
  }
}
type Watched = ReturnType<typeof watched>

const row = (age: number) => [{ ip: '192.0.2.1:80', type: 'http', age }]
const asked =
  (path: string, times = 1) =>
  async ({ api }: Watched) => {
    for (let n = 0; n < times; n += 1) await api(path)
  }
const feedWith =
  (error: string) =>
  ({ dir }: Watched) =>
    withFeeds(dir, async store => {
      await store.keepOnly([FEED], T0)
      await store.save(FEED.id, { ...FEED_STATE, error })
    })
const ticks = ({ attention }: Watched): void => {
  for (let n = 0; n < 330; n += 1) attention.tick()
}

/** What the checker says. */
const saysChecker =
  (more: Partial<CheckerStatus>) =>
  ({ dir }: Watched): void => {
    using checks = openCandidates(dir)
    void checks.status.write({ ...CHECKER_STATUS, ...more })
  }

type Case = {
  reason: string
  dir?: () => string
  make(on: Watched): unknown
  mend(on: Watched): unknown
  sentence: RegExp
  /** False for a reason that only the process of the server can count. */
  isExamined?: boolean
}
const CASES: readonly Case[] = [
  {
    reason: 'list_empty',
    dir: () => dataDirectory([]),
    make() {},
    mend: ({ dir }) => addList(dir, row(0)),
    sentence: /^the list is empty; fill it with: proxylist import FILE$/,
  },
  {
    reason: 'list_stale',
    make: on => on.pass(DAY),
    mend: on => on.pass(-DAY),
    sentence: /^no proxy was checked in the last 10 minutes, the newest 24 hours ago$/,
  },
  {
    reason: 'not_found',
    make: asked(`${ASK}&country=zz`),
    mend: ticks,
    sentence: /^1 of 1 request in the last five minutes \(100%\) found nothing: 404/,
    isExamined: false,
  },
  {
    reason: 'feed_failing',
    make: feedWith('the server does not answer'),
    mend: feedWith(''),
    sentence: /^feed http:\/\/h\/a: the server does not answer$/,
  },
  {
    reason: 'key_refused',
    dir: () => dataDirectory(row(0), { burst: { requests: 2, seconds: 60 } }),
    async make(on) {
      await asked(ASK, 22)(on)
      await on.registry.usage.flush()
    },
    mend: on => on.pass(DAY),
    sentence: /^key \w{8} has reached a limit today: 20 requests refused, 2 admitted$/,
  },
  {
    reason: 'key_expiring',
    make: on => on.change({ expires: '6d', label: 'acme' }),
    mend: on => on.change({ expires: '8d' }),
    sentence: /^key acme \(\w{8}\) ends on 2026-11-26$/,
  },
  {
    reason: 'clock',
    make(on) {
      addList(on.dir, row(-300))
      on.pass(-100)
    },
    mend: on => on.pass(100),
    sentence: /^the last checks of 1 proxy lie in the future: .*proxylist import --replace FILE$/,
  },
  {
    reason: 'checker',
    make: saysChecker({ coverage: 0.5, neededRate: 40 }),
    mend: saysChecker({}),
    sentence: /^only 50% of the living .*; a --rate of 40\/s would find them$/,
  },
]

async function expectToComeAndGo(on: Watched, { make, mend, sentence, isExamined = true }: Case) {
  await make(on)
  on.pass()
  const said = await on.said()
  expect(said).toEqual([expect.stringMatching(sentence)])
  await until(async () => (await on.scraped()) === 1)
  if (isExamined) expect(await on.examined()).toContain(said[0] as string)
  await mend(on)
  on.pass()
  expect(await on.said()).toEqual([])
  await until(async () => (await on.scraped()) === 0)
  expect(await on.examined()).not.toContain(said[0] as string)
}

describe('console, metrics and doctor show and clear', () => {
  test.each(CASES)('$reason', async each => {
    await expectToComeAndGo(watched((each.dir ?? dataDirectory)(), each.reason), each)
  })

  const disk = smallDisk('40m')
  test.skipIf(disk === null)('disk', async () => {
    const dir = join(disk ?? '', 'data')
    cpSync(dataDirectory(), dir, { recursive: true })
    const resize = (size: string) => () =>
      Bun.spawnSync(['mount', '-o', `remount,size=${size}`, disk ?? ''])
    await expectToComeAndGo(watched(dir, 'disk'), {
      ...{ reason: 'disk', make: () => {}, mend: resize('200m') },
      sentence: /^\d+ MB are free on the disk; an import may take 68 MB$/,
    })
  })
})
