/**
 * Fair shares of long answers (contract B9), from the request to the worker: streams that nobody
 * reads keep their slots. How long a request waits is in `test/sqlite/streaming/slots.test.ts`, the
 * order of turns in `turns.test.ts`.
 */
import { afterAll, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import { keySubject } from '../../src/access/entitlements.ts'
import { createHandler, type Outcome } from '../../src/api/handler.ts'
import { createQueryReader } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import type { AnswerStream } from '../../src/api/streaming.ts'
import { openServerList, openServerRegistry } from '../../src/app.ts'
import { addKeys, addList, type Limits, T0, type TestRow } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const PROVIDER = 'the service'
const ROWS: readonly TestRow[] = Array.from({ length: 3_000 }, (_, n) => ({
  ip: `10.${n % 9}.${n >> 8}.${n & 255}:80`,
  type: 'http',
  works: 95,
}))

type Plans = { [name: string]: Partial<Limits> }

/** A data directory with a key for each plan, named as its plan. */
function directoryOf(plans: Plans): string {
  const dir = temporaryDirectory()
  addList(dir, ROWS)
  const keys = Object.keys(plans).filter(plan => plan !== 'demo' && plan !== 'temp')
  addKeys(
    dir,
    plans,
    keys.map(key => ({ key, plan: key })),
    T0,
  )
  return dir
}

/** A server on a data directory. */
function createWorld(plans: Plans, dir = directoryOf(plans)) {
  const registry = openServerRegistry(dir, () => {})
  const clock = () => T0
  const list = openServerList(dir, PROVIDER, clock, () => {})
  const { streamer } = list
  const access = createAccess(registry.keys, registry.usage)
  const handle = createHandler({
    clock,
    access,
    readQuery: createQueryReader(PROVIDER),
    cache: createResponseCache({ reader: list, streamer, provider: PROVIDER, bytesMax: 2 ** 20 }),
  })
  let asked = 0
  return {
    /** Asks for the whole list; no two filters are the same. */
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
    stop: () => streamer?.refuseWaiting(),
    requestsOf: async (key: string): Promise<number> => {
      const caller = access.authenticate(key, T0)
      if (caller === null) throw new Error(`${key} is no key`)
      const [used] = await registry.usage.peek([keySubject(caller.id)])
      return used?.requests ?? 0
    },
    close() {
      list.close()
      registry.close()
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
  const { ask, close } = createWorld({ greedy: { downloads: 4 }, other: { downloads: 4 } })
  const all = Array.from({ length: 60 }, () => ask('greedy'))
  const four = await Promise.all(all.slice(0, 4).map(streamOf))
  const other = await streamOf(ask('other'))
  expect(all.filter(({ outcome }) => outcome !== null)).toHaveLength(4)
  await four[0]?.cancel()
  await streamOf(all[4] ?? ask('greedy'))
  expect(all.filter(({ outcome }) => outcome !== null)).toHaveLength(5)
  await other.cancel()
  close()
})

test('a key has as many long answers as its plan allows on all servers of a data directory together', async () => {
  const plans = { one: { downloads: 2 } }
  const dir = directoryOf(plans)
  const [here, there] = [createWorld(plans, dir), createWorld(plans, dir)]
  const two = [await streamOf(here.ask('one')), await streamOf(there.ask('one'))]
  const more = [here.ask('one'), there.ask('one')]
  for (const { outcome } of more) expect(outcome).toBeNull()
  await two[0]?.cancel() // here
  const next = await Promise.race(more.map(streamOf))
  expect(more.filter(({ outcome }) => outcome !== null)).toHaveLength(1)
  await Promise.all([two[1], next].map(stream => stream?.cancel()))
  const last = await Promise.all(more.map(streamOf))
  await Promise.all(last.map(stream => stream.cancel()))
  here.close()
  there.close()
})

test('a stream that was read to its end makes room for the next', async () => {
  const { ask, close } = createWorld({ one: { downloads: 1 } })
  const [first, second] = [ask('one'), ask('one')]
  const stream = await streamOf(first)
  expect(second.outcome).toBeNull()
  await new Response(stream.open(() => {})).bytes()
  await (await streamOf(second)).cancel()
  close()
})

test('an address of demo has one long answer, and another address its own', async () => {
  const demo = { burst: { requests: 9, seconds: 60 }, downloads: 1 }
  const { ask, close } = createWorld({ demo: { ...demo, count: null } })
  const answers = ['192.0.2.1', '192.0.2.1', '192.0.2.2'].map(ip => ask('demo', ip))
  // What demo gets is masked and found whole: it keeps its slot until it is found.
  const outcomes = await Promise.all(answers.map(({ ended }) => ended))
  expect(outcomes.map(({ kind }) => kind)).toEqual(['answered', 'answered', 'answered'])
  close()
})

test('a server that stops refuses a waiting long answer with 503, and gives it back', async () => {
  const { ask, stop, requestsOf, close } = createWorld({ one: { downloads: 1 } })
  const [first, second] = [ask('one'), ask('one')]
  const stream = await streamOf(first)
  expect([second.outcome, await requestsOf('one')]).toEqual([null, 2])
  stop()
  const outcome = await second.ended
  expect(outcome).toMatchObject({ kind: 'refused', error: { status: 503 } })
  expect(await requestsOf('one')).toBe(1)
  await stream.cancel()
  close()
})

test('a draw of a few is no long answer: it does not wait for those of its key', async () => {
  const { ask, close } = createWorld({ one: { downloads: 1 } })
  const stream = await streamOf(ask('one'))
  const drawn = await ask('one', undefined, '&sort=random&count=1').ended
  expect(drawn).toMatchObject({ kind: 'answered', answer: { kind: 'answer', records: 1 } })
  await stream.cancel()
  close()
})
