/** Transcripts of `fetch` and `feeds`; see `transcript.ts` for their form. */
import type { Transcript } from '../support/transcript.ts'

const LIST = 'http://192.0.2.1:8080\nsocks5://192.0.2.2:1080\n'
const ALL = 'get=txt&time=999999999'
const BOTH = '192.0.2.1:8080\n192.0.2.2:1080\n'

/** The table of one feed that was fetched at T0. */
const TABLE =
  'SOURCE  LAST SUCCESS              ROWS  NEXT TRY                  ERROR\n' +
  'a.txt   2026-11-20T12:00:00.000Z  2     2026-11-20T12:01:00.000Z\n'
const STATE = {
  source: 'a.txt',
  last_success: '2026-11-20T12:00:00.000Z',
  rows: 2,
  error: null,
  next_try: '2026-11-20T12:01:00.000Z',
}
const json = (states: readonly object[]): string => `${JSON.stringify(states, null, 2)}\n`

export const FEEDS: readonly Transcript[] = [
  {
    name: 'fetch imports feeds once; feeds shows last success, rows, error and next try',
    files: { 'a.txt': LIST },
    steps: [
      { args: 'fetch --feed a.txt', stdout: TABLE },
      { args: ['list', ALL], stdout: BOTH },
      { args: 'feeds', stdout: TABLE },
      { args: 'feeds --json', stdout: json([STATE]) },
    ],
  },
  {
    name: 'a feeds file has a feed a line, each with its options',
    files: {
      'feeds.conf': '# ours\na.txt every=5m\nb.txt type=socks4 format=txt # theirs\n',
      'a.txt': LIST,
      'b.txt': '192.0.2.3:4145\n',
    },
    steps: [
      { args: 'fetch --feeds feeds.conf --json', stdout: /"rows": 2[\s\S]*"rows": 1/ },
      { args: ['list', `type=socks4&${ALL}`], stdout: '192.0.2.3:4145\n' },
    ],
  },
  {
    name: 'several feeds travel in one variable as words, each option with the feed before it',
    files: { 'a.txt': '192.0.2.1:8080\n', 'b.txt': '192.0.2.2:1080\n' },
    steps: [
      {
        args: 'fetch --json',
        env: { PROXYLIST_FEED: 'a.txt type=http b.txt type=socks5' },
        stdout: /"a\.txt"[\s\S]*"b\.txt"/,
      },
      { args: ['fetch', '--feed', 'a.txt type=http', '--feed', 'b.txt type=socks5'], stdout: /./ },
      { args: ['list', ALL], stdout: BOTH },
    ],
  },
  {
    name: 'fetch reads the feeds file of the data directory; with --feed, that feed alone',
    files: { 'data/feeds': 'b.txt type=socks4\n', 'a.txt': LIST, 'b.txt': '192.0.2.3:4145\n' },
    steps: [
      { args: 'fetch --feed a.txt', stdout: TABLE },
      { args: 'fetch --json', stdout: /"source": "b\.txt"[\s\S]*"rows": 1/ },
    ],
  },
  {
    name: 'fetch leaves a feed marked check to the checker',
    files: { 'feeds.conf': 'raw.txt check\na.txt\n', 'a.txt': LIST, 'raw.txt': '192.0.2.9:80\n' },
    steps: [
      {
        args: 'fetch --feeds feeds.conf',
        stdout: TABLE,
        stderr: 'feed raw.txt is marked check: proxylist check fetches it\n',
      },
      { args: ['list', ALL], stdout: BOTH },
    ],
  },
  {
    name: 'feeds of a directory that has none says so',
    steps: [
      { args: 'keys add', stdout: /./, stderr: /./ },
      { args: 'feeds', stderr: 'no feed was fetched into ./data yet\n' },
      { args: 'feeds --json', stdout: '[]\n' },
    ],
  },
]
