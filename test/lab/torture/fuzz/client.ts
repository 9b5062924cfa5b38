/**
 * The fuzzer's client: sends requests made from a seed over many connections, checks every answer
 * and counts what is wrong. Well-formed requests share keep-alive connections; malformed ones have
 * a connection each. A script, see `runAsScript`.
 */
import { pick, randomOf } from '../../../support/random.ts'
import { runAsScript } from '../../support/script.ts'
import { connectTo, type HttpAnswer, readAnswer } from '../support/client.ts'
import { bytesOf, type Case, makeCase, mutatedCase } from './grammar.ts'
import { FAULTS, type Fault, isOurs, judge } from './judge.ts'
import { type Keys, keysOf } from './keys.ts'
import { makeRaw } from './raw.ts'

/** How many requests of each kind are sent. */
export type Amounts = { grammar: number; mutated: number; raw: number }
/** A request whose answer is known byte by byte. */
export type Probe = { target: string; body: string }
export type FuzzInput = {
  port: number
  seed: number
  /** Distinguishes clients with the same seed. */
  client: number
  amounts: Amounts
  connections: number
  probes: readonly Probe[]
}
export type FuzzResult = {
  sent: Amounts
  probes: number
  /** Answers by status: the service's own, and those that Bun gave by itself. */
  ours: { [status: string]: number }
  buns: { [status: string]: number }
  /** Errors of the service. */
  errors: number
  answerBytes: number
  slowestMs: number
  wrong: { [fault in Fault]: number }
  /** The first wrong answers, with the bytes of their requests. */
  examples: string[]
}

const SLOW_MS = 1_000
/** A silent connection is closed after this. */
const SILENCE_MS_MAX = 10_000
/** A probe is sent before every so many requests. */
const PROBE_EVERY = 20
const EXAMPLES_MAX = 5
/** Above this, Bun may answer 431 to a valid request. */
const HEAD_MAX_BYTES = 8_000

const increment = (counts: { [status: string]: number }, status: number): void => {
  counts[status] = (counts[status] ?? 0) + 1
}

function createTally() {
  const result: FuzzResult = {
    sent: { grammar: 0, mutated: 0, raw: 0 },
    probes: 0,
    ours: {},
    buns: {},
    errors: 0,
    answerBytes: 0,
    slowestMs: 0,
    wrong: Object.fromEntries(FAULTS.map(fault => [fault, 0])) as FuzzResult['wrong'], // all of them
    examples: [],
  }
  return {
    result,
    note(fault: Fault, why: string, request: string): void {
      result.wrong[fault] += 1
      if (result.examples.length >= EXAMPLES_MAX) return
      result.examples.push(`${fault}: ${why} <- ${JSON.stringify(request.slice(0, 600))}`)
    },
    answered(answer: HttpAnswer): void {
      increment(isOurs(answer) ? result.ours : result.buns, answer.status)
      if (isOurs(answer) && answer.status >= 400) result.errors += 1
      result.answerBytes += answer.body.length
    },
    took(ms: number, request: string): void {
      result.slowestMs = Math.max(result.slowestMs, ms)
      if (ms > SLOW_MS) this.note('slow', `${Math.round(ms)} ms`, request)
    },
  }
}
type Tally = ReturnType<typeof createTally>

type Listeners = { data: (text: string) => void; close: () => void }

/** Opens a connection; what arrives, as Latin-1, goes to `listeners`. */
const open = (port: number, { data, close }: Listeners) =>
  connectTo(
    { kind: 'tcp', hostname: '127.0.0.1', port },
    { data: (_, chunk) => data(chunk.toString('latin1')), close, error: close },
  )

type Outcome = { text: string; answer: HttpAnswer | null; error: string | null; open: boolean }

/** A keep-alive connection. */
async function connect(port: number) {
  let text = ''
  let isOpen = true
  let check = (): void => {}
  const socket = await open(port, {
    data(piece) {
      text += piece
      check()
    },
    close() {
      isOpen = false
      check()
    },
  })

  function take(isHead: boolean): Outcome | null {
    try {
      const found = readAnswer(text, isHead)
      if (found?.answer.status === 100) {
        text = text.slice(found.end)
        return take(isHead)
      }
      if (found === null && isOpen) return null
      const error = found && found.end < text.length ? 'more bytes than the answer has' : null
      return { text, answer: found?.answer ?? null, error, open: isOpen }
    } catch (thrown) {
      return { text, answer: null, error: String(thrown), open: isOpen }
    }
  }

  return {
    /** Sends a request and gives its outcome. */
    async exchange(request: string, isHead: boolean): Promise<Outcome> {
      text = ''
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      check = () => {
        const outcome = take(isHead)
        if (outcome) resolve(outcome)
      }
      const timer = setTimeout(() => socket.terminate(), SILENCE_MS_MAX)
      socket.write(Buffer.from(request, 'latin1'))
      check()
      const outcome = await promise
      clearTimeout(timer)
      return outcome
    },
    close: () => void socket.end(),
  }
}

/** Sends well-formed requests, one after the other, until none remains. */
async function runKept(input: FuzzInput, tally: Tally, next: () => Case | null): Promise<void> {
  const random = randomOf(input.seed, `probes ${input.client}`)
  let connection = await connect(input.port)
  let sent = 0

  async function ask(
    request: string,
    isHead: boolean,
    take: (answer: HttpAnswer) => void,
  ): Promise<void> {
    const startMs = performance.now()
    const { answer, error, text, open: isOpen } = await connection.exchange(request, isHead)
    tally.took(performance.now() - startMs, request)
    if (error !== null) tally.note('shape', `${error} in ${text.slice(0, 200)}`, request)
    else if (answer === null) tally.note('lost', `${text.length} bytes of an answer`, request)
    else {
      tally.answered(answer)
      take(answer)
    }
    const isOver = !isOpen || answer === null || !isOurs(answer)
    if (!isOver && answer.headers.get('connection') !== 'close') return
    connection.close()
    connection = await connect(input.port)
  }

  for (let made = next(); made !== null; made = next()) {
    const { statuses, method } = made
    const request = bytesOf(made)
    const isHead = method === 'HEAD'
    await ask(request, isHead, answer => {
      const allowed = request.length > HEAD_MAX_BYTES ? null : statuses
      const wrong = judge(answer, allowed, isHead)
      if (wrong) tally.note(wrong.fault, wrong.why, request)
      if (!isOurs(answer) && allowed !== null) {
        tally.note('status', `Bun answered ${answer.status}`, request)
      }
    })
    sent += 1
    if (sent % PROBE_EVERY !== 0 || input.probes.length === 0) continue
    const probe = pick(random, input.probes)
    const asked = `GET ${probe.target} HTTP/1.1\r\nHost: a\r\n\r\n`
    tally.result.probes += 1
    await ask(asked, false, ({ status, body }) => {
      if (status !== 200 || body !== probe.body) tally.note('probe', `${status} ${body}`, asked)
    })
  }
  connection.close()
}

/** Judges all answers of a connection; a truncated last one is skipped. */
function judgeAll(tally: Tally, request: string, text: string): void {
  const mayBeHead = request.includes('HEAD')
  let rest = text
  try {
    for (;;) {
      const found = readAnswer(rest, mayBeHead)
      if (found === null) return
      tally.answered(found.answer)
      const wrong = judge(found.answer, null, mayBeHead)
      if (wrong) tally.note(wrong.fault, wrong.why, request)
      rest = rest.slice(found.end)
      if (mayBeHead) return
    }
  } catch (error) {
    tally.note('shape', `${error} in ${rest.slice(0, 200)}`, request)
  }
}

/** Sends bytes on a new connection, ends it, and judges what arrived. */
async function runRaw(port: number, tally: Tally, next: () => string | null): Promise<void> {
  for (let request = next(); request !== null; request = next()) {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    let text = ''
    const take = (piece: string): void => {
      text += piece
    }
    const socket = await open(port, { data: take, close: resolve })
    const timer = setTimeout(() => socket.terminate(), SILENCE_MS_MAX)
    const startMs = performance.now()
    socket.write(Buffer.from(request, 'latin1'))
    socket.shutdown()
    await closed
    clearTimeout(timer)
    tally.took(performance.now() - startMs, request)
    judgeAll(tally, request, text)
  }
}

/** A function that makes `amount` requests, then gives `null`. */
function supply<T>(amount: number, make: () => T, count: () => void): () => T | null {
  let left = amount
  return () => {
    if (left === 0) return null
    left -= 1
    count()
    return make()
  }
}

/** Sends all requests and gives the tally. */
export async function fuzz(input: FuzzInput): Promise<FuzzResult> {
  const { port, seed, client, amounts, connections } = input
  const tally = createTally()
  const { sent } = tally.result
  const keys: Keys = keysOf(seed)
  const random = (kind: string) => randomOf(seed, `${kind} ${client}`)
  const [forGrammar, forMutated, forRaw] = [random('grammar'), random('mutated'), random('raw')]
  const grammar = supply(
    amounts.grammar,
    () => makeCase(forGrammar, keys),
    () => void sent.grammar++,
  )
  const mutated = supply(
    amounts.mutated,
    () => mutatedCase(forMutated, keys),
    () => void sent.mutated++,
  )
  const raw = supply(
    amounts.raw,
    () => makeRaw(forRaw, keys),
    () => void sent.raw++,
  )
  const many = (work: () => Promise<void>) => Array.from({ length: connections }, work)
  await Promise.all([
    ...many(() => runKept(input, tally, () => grammar() ?? mutated())),
    ...many(() => runRaw(port, tally, raw)),
  ])
  return tally.result
}

if (import.meta.main) await runAsScript(fuzz)
