/**
 * Slots for long answers (contract B9), from the request to the worker. A stream that the test does not read
 * keeps its slot. The rules of the slots are tested in `test/sqlite/proxies/stream-slots.test.ts`.
 */
import { afterAll, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import type { AnswerStream } from '../../src/api/answer.ts'
import { createAdmissionCounts, createHandler, type Outcome } from '../../src/api/handler.ts'
import { createQueryReader } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { addKeys, addList, type Limits, T0, type TestRow } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PROVIDER = 'the service'
const ROWS: readonly TestRow[] = Array.from({ length: 3_000 }, (_, n) => ({
  ip: `10.${n % 9}.${n >> 8}.${n & 255}:80`,
  type: 'http',
  works: 95,
}))

type Plans = { [name: string]: Partial<Limits> }

const TEMPORARY = 'temp_5f4dcc3b5aa765d61d8327deb882cf99'

/** A data directory with a key for each plan, named as its plan, and a temporary one. */
function directoryOf(plans: Plans): string {
  const dir = temporaryDirectory()
  addList(dir, ROWS)
  const names = Object.keys(plans).filter(plan => plan !== 'demo' && plan !== 'temp')
  const keys = names.map(key => ({ key, plan: key }))
  addKeys(dir, plans, [...keys, { key: TEMPORARY, plan: null }], T0)
  return dir
}

/** A server on a data directory. */
function createWorld(plans: Plans) {
  const dir = directoryOf(plans)
  const registry = openServerRegistry(dir, () => {})
  const clock = () => T0
  const list = openServerList(dir, PROVIDER, clock, () => {})
  const { streamer } = list
  onCleanUp(() => {
    list.close()
    registry.close()
  })
  const handle = createHandler({
    admissions: createAdmissionCounts(),
    clock,
    access: createAccess(registry.keys, registry.usage),
    readQuery: createQueryReader(PROVIDER),
    cache: createResponseCache({ reader: list, streamer, provider: PROVIDER, bytesMax: 2 ** 20 }),
  })
  let asked = 0
  return {
    /** Asks for the whole list, or as `more` says; no two filters are the same. */
    ask(key: string, ip = '192.0.2.1', more = '') {
      const queryString = `key=${key}&time=${86_400 + asked++}${more}`
      const request = { key, queryString, ip: () => ip, nowMs: T0 }
      const answer: { outcome: Outcome | null; ended: Promise<Outcome> } = {
        outcome: null,
        ended: Promise.resolve(handle(request, outcome => outcome)),
      }
      void answer.ended.then(outcome => {
        answer.outcome = outcome
      })
      return answer
    },
  }
}

/** The stream of an answer. */
async function streamOf({ ended }: { ended: Promise<Outcome> }): Promise<AnswerStream> {
  const outcome = await ended
  if (outcome.kind === 'refused') throw outcome.error
  if (outcome.answer.kind !== 'stream') throw new Error('the answer is not a stream')
  return outcome.answer
}

test('one key with all the long answers that its plan allows does not keep others from theirs', async () => {
  const { ask } = createWorld({ greedy: { downloads: 4 }, other: { downloads: 4 } })
  const all = Array.from({ length: 60 }, () => ask('greedy'))
  const four = await Promise.all(all.slice(0, 4).map(streamOf))
  const other = await streamOf(ask('other'))
  expect(all.filter(({ outcome }) => outcome !== null)).toHaveLength(4)
  await four[0]?.cancel()
  await streamOf(all[4] ?? ask('greedy'))
  expect(all.filter(({ outcome }) => outcome !== null)).toHaveLength(5)
  await other.cancel()
})

test('a stream that was read to its end makes room for the next', async () => {
  const { ask } = createWorld({ one: { downloads: 1 } })
  const [first, second] = [ask('one'), ask('one')]
  const stream = await streamOf(first)
  expect(second.outcome).toBeNull()
  await new Response(stream.open(() => {})).bytes()
  await (await streamOf(second)).cancel()
})

const TRIAL = { burst: { requests: 99, seconds: 60 }, downloads: 1 }
const addressOf = (n: number): string => `192.0.2.${n}`

test('an address has one long answer with demo and temporary keys, and others have their own', async () => {
  const { ask } = createWorld({
    demo: { ...TRIAL, count: null },
    temp: { ...TRIAL, count: null },
  })
  const held = await streamOf(ask(TEMPORARY, addressOf(1)))
  const waiting = ask('demo', addressOf(1))
  for (const n of [2, 3, 4, 5, 6, 7]) {
    expect((await ask('demo', addressOf(n)).ended).kind).toBe('answered')
  }
  expect(waiting.outcome).toBeNull()
  await held.cancel()
  expect((await waiting.ended).kind).toBe('answered')
})

test('a draw of a few is no long answer: it does not wait for those of its key', async () => {
  const { ask } = createWorld({ one: { downloads: 1 } })
  const stream = await streamOf(ask('one'))
  const drawn = await ask('one', undefined, '&sort=random&count=1').ended
  expect(drawn).toMatchObject({ kind: 'answered', answer: { kind: 'answer', records: 1 } })
  await stream.cancel()
})
