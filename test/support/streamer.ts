/** What tests of finding answers have in common: queries, readers of a list, and a streamer of nothing. */
import { type Entitlements, entitlementsOf } from '../../src/access/entitlements.ts'
import type { AnswerStreamer } from '../../src/api/answer.ts'
import { createQueryReader, type Query } from '../../src/api/query.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import type { List } from '../../src/sqlite/stores.ts'
import { regular } from './limits.ts'

export const PROVIDER = 'the service'
/** Those of a key whose plan limits nothing. */
export const REGULAR: Entitlements = entitlementsOf(regular({}))

const read = createQueryReader(PROVIDER)
export const queryOf = (text: string, entitlements = REGULAR): Query =>
  read(text, 'k', entitlements)

/** A reader of a whole list; `onFind` is called before each select. */
export function readerOf({ proxies }: List, onFind = (): void => {}): ProxyReader {
  const { findAll, findByIds, explainEmpty, isEmpty, version } = proxies
  return {
    ...{ findByIds, explainEmpty, isEmpty, version: () => String(version()) },
    find(filter, options) {
      onFind()
      return findAll(filter, options)
    },
  }
}

/** What other connections changed is read once in a turn of the event loop. */
export const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const unexpected = async (): Promise<never> => {
  throw new Error('the streamer was not expected to be asked')
}

/** A streamer of nothing, to be completed with what a test is about. */
export const NO_STREAMER: AnswerStreamer = {
  stream: unexpected,
  matches: unexpected,
  refuseWaiting() {},
}
