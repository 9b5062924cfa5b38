/** Owns the table of routes: which paths there are, and what each replies. */
import { refused } from '../../api/handler.ts'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { plainText } from '../reply.ts'
import { type ApiRouteParts, apiRoute } from './api.ts'
import { type KeyRouteParts, keyRoute } from './key.ts'
import { type PageFile, pageRoutes } from './pages.ts'
import { type ReferenceParts, referenceRoutes } from './reference.ts'
import type { Route } from './route.ts'
import { type StatsReader, statsRoute } from './stats.ts'

export type RouteParts = ApiRouteParts &
  KeyRouteParts &
  ReferenceParts & {
    /** Throws or rejects when the list cannot be read or usage cannot be written. */
    probe: () => Awaitable<void>
    /** What `/readyz` adds of the copies of a node; `''` on a machine that has its own data. */
    readiness: () => string
    /** Brings the files of the page; `null` serves none. */
    pages: (() => Promise<readonly PageFile[]>) | null
    /** Reads the statistics of the list; `null` publishes none. */
    stats: StatsReader | null
  }

/** The routes of GET and HEAD by path. */
export const createRoutes = ({
  probe,
  readiness,
  pages,
  stats,
  access,
  usage,
  openapi,
  docs,
  ...api
}: RouteParts): { [path: string]: Route } => ({
  ...(pages === null ? {} : pageRoutes(pages)),
  ...(stats === null ? {} : { '/stats': statsRoute(stats) }),
  ...referenceRoutes({ openapi, docs }),
  '/api': apiRoute(api),
  '/key': keyRoute({ access, usage }),
  '/healthz': (_, end) => end(plainText('ok\n')),
  '/readyz': async (_, end) => {
    try {
      await probe()
    } catch (thrown) {
      return end(refused(thrown))
    }
    return end(plainText(`ready${readiness()}\n`))
  },
})
