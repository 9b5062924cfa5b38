/** Transcripts of `fetch` and `feeds`; see `transcript.ts` for their form. */
import { MINUTE_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import { prints, says, type Transcript } from '../support/transcript.ts'

const LIST = 'http://192.0.2.1:8080\nsocks5://192.0.2.2:1080\n'
const SOCKS4 = '192.0.2.3:4145\n'
const ALL = 'get=txt&time=999999999'
const BOTH = '192.0.2.1:8080\n192.0.2.2:1080\n'

/** The table of one feed that was fetched at T0. */
const TABLE =
  'SOURCE  LAST SUCCESS              ROWS  NEXT TRY                  ERROR\n' +
  'a.txt   2026-11-20T12:00:00.000Z  2     2026-11-20T12:01:00.000Z\n'
const STATE = {
  ...{ source: 'a.txt', last_success: '2026-11-20T12:00:00.000Z', rows: 2, error: null },
  ...{ next_try: '2026-11-20T12:01:00.000Z', stale_since: null },
}
const STALE = 'feed a.txt is unchanged since 2026-11-20T12:00:00.000Z; its rows are no longer fresh'

export const FEEDS: readonly Transcript[] = [
  {
    name: 'fetch imports feeds; feeds shows the last success, rows, the error and the next try',
    files: { 'a.txt': LIST },
    steps: [
      prints('fetch --feed a.txt', TABLE),
      prints(['list', ALL], BOTH),
      prints('feeds', TABLE),
      prints('feeds --json', `${JSON.stringify([STATE], null, 2)}\n`),
    ],
  },
  {
    name: 'a feeds file has one feed in each line, with its options',
    files: {
      'feeds.conf': '# ours\na.txt every=5m\nb.txt type=socks4 format=txt # theirs\n',
      ...{ 'a.txt': LIST, 'b.txt': SOCKS4 },
    },
    steps: [
      prints('fetch --feeds feeds.conf --json', /"rows": 2[\s\S]*"rows": 1/),
      prints(['list', `type=socks4&${ALL}`], SOCKS4),
    ],
  },
  {
    name: 'one variable names several feeds, each followed by its options; so do several --feed',
    files: { 'a.txt': '192.0.2.1:8080\n', 'b.txt': '192.0.2.2:1080\n' },
    steps: [
      {
        ...prints('fetch --json', /"a\.txt"[\s\S]*"b\.txt"/),
        env: { PROXYLIST_FEED: 'a.txt type=http b.txt type=socks5' },
      },
      prints(['fetch', '--feed', 'a.txt type=http', '--feed', 'b.txt type=socks5'], /./),
      prints(['list', ALL], BOTH),
    ],
  },
  {
    name: 'fetch reads the feeds file of the data directory; with --feed, that feed alone',
    files: { 'data/feeds': 'b.txt type=socks4\n', 'a.txt': LIST, 'b.txt': SOCKS4 },
    steps: [
      prints('fetch --feed a.txt', TABLE),
      prints('fetch --json', /"source": "b\.txt"[\s\S]*"rows": 1/),
    ],
  },
  {
    name: 'fetch leaves a feed marked check to the checker',
    files: { 'feeds.conf': 'raw.txt check\na.txt\n', 'a.txt': LIST, 'raw.txt': '192.0.2.9:80\n' },
    steps: [
      prints(
        'fetch --feeds feeds.conf',
        TABLE,
        'feed raw.txt is marked check: proxylist check fetches it\n',
      ),
      prints(['list', ALL], BOTH),
    ],
  },
  {
    name: 'feeds and doctor say that a feed brought nothing new for over ten minutes',
    files: { 'a.txt': LIST, 'b.txt': SOCKS4, later: String(T0 + 10 * MINUTE_MS + 1) },
    steps: [
      prints('keys add', /./, /./),
      prints('fetch --feed a.txt', TABLE),
      ...[
        prints('feeds', TABLE, `${STALE}\n`),
        says('import b.txt --type socks4', /added 1/),
        prints('doctor --json', new RegExp(STALE)),
      ].map(step => ({ ...step, env: { PROXYLIST_TEST_CLOCK: 'later' } })),
    ],
  },
  {
    name: 'feeds says that no feed was fetched yet',
    steps: [
      prints('keys add', /./, /./),
      says('feeds', 'no feed was fetched into ./data yet\n'),
      prints('feeds --json', '[]\n'),
    ],
  },
]
