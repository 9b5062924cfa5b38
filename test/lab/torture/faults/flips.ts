/** Flipped bits: lists are damaged before a start or under a running server. */
import { closeSync, cpSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { between, randomOf } from '../../../support/random.ts'
import { files } from '../../support/serve.ts'
import { type Finding, type Run, scaled } from '../part.ts'
import { answersOf, isAllowed, QUERIES, type Seen, startWatched, type Watched } from './server.ts'

const FLIPS = 240
/**
 * How long it may take until a list is found damaged: everything is checked ten seconds after a start,
 * and until then a schema with a flipped bit may only be a statement that fails, which is 503 too.
 */
const CHECK_MS_MAX = 15_000

/** Flips one to four bits of a file. */
function flipBits(file: string, random: () => number): void {
  const fd = openSync(file, 'r+')
  const { size } = statSync(file)
  for (let n = between(random, 1, 4); n > 0; n -= 1) {
    const at = between(random, 0, size - 1)
    const byte = new Uint8Array(1)
    readSync(fd, byte, 0, 1, at)
    byte[0] = (byte[0] ?? 0) ^ (1 << between(random, 0, 7))
    writeSync(fd, byte, 0, 1, at)
  }
  closeSync(fd)
}

const askAll = (server: Watched): Promise<Seen[]> => Promise.all(QUERIES.map(server.ask))

/** Waits until the server has checked its list; gives whether it serves it. */
async function checked(server: Watched): Promise<'intact' | 'refused' | 'undecided'> {
  const startMs = performance.now()
  while (performance.now() - startMs < CHECK_MS_MAX) {
    if (server.written.stderr.includes('is damaged')) return 'refused'
    if ((await server.get('/readyz')).status === 200) return 'intact'
    await Bun.sleep(5)
  }
  return 'undecided'
}

type Outcome = { end: string; wrong: string[]; answers: number; stderr: string }

/** One damage: before the start, or under a server that has answered or not. */
async function damageOnce(
  { binary }: Run,
  dir: string,
  right: ReadonlyMap<string, string>,
  random: () => number,
): Promise<Outcome> {
  const isRunning = random() < 0.5
  const file = files(dir).list
  if (!isRunning) flipBits(file, random)
  const server = await startWatched(binary, dir).catch(() => null)
  if (server === null) return { end: 'not started', wrong: [], answers: 0, stderr: '' }
  try {
    if (isRunning) {
      if (random() < 0.5) await askAll(server)
      flipBits(file, random)
    }
    const early = await askAll(server)
    const end = await checked(server)
    const all = [...early, ...(await askAll(server))]
    const wrong = all.flatMap((answer, i) => {
      const query = QUERIES[i % QUERIES.length] ?? ''
      const isRight = isAllowed(answer, right.get(query))
      return isRight ? [] : [`${query}: ${answer.status} ${answer.body.slice(0, 60)}`]
    })
    const { stderr } = server.written
    return { end: !server.isRunning() ? 'crashed' : end, wrong, answers: all.length, stderr }
  } finally {
    await server.stop()
  }
}

const isBad = ({ end }: Outcome): boolean => end === 'crashed' || end === 'undecided'

export async function flips(run: Run, pristine: string): Promise<Finding[]> {
  const random = randomOf(run.seed, 'flips')
  const intact = await startWatched(run.binary, pristine)
  const right = await answersOf(intact)
  await intact.stop()
  const ends = new Map<string, number>()
  const wrong: string[] = []
  let answers = 0
  const total = scaled(FLIPS, run)
  for (let n = 1; n <= total; n += 1) {
    const dir = `${run.directory('flip')}/data`
    cpSync(pristine, dir, { recursive: true, preserveTimestamps: true })
    const outcome = await damageOnce(run, dir, right, random)
    ends.set(outcome.end, (ends.get(outcome.end) ?? 0) + 1)
    for (const what of outcome.wrong) run.say(`flip ${n}: wrong: ${what}`)
    if (isBad(outcome)) run.say(`flip ${n}: ${outcome.end}: ${outcome.stderr}`)
    wrong.push(...outcome.wrong)
    answers += outcome.answers
    if (n % 40 === 0) run.say(`${n} damages`)
  }
  const count = (end: string): number => ends.get(end) ?? 0
  const bad = count('crashed') + count('undecided')
  return [
    {
      promise: 'after flipped bits, before a start or under a server: the right answer or 503',
      figure:
        `${total} damages, ${answers} answers, ${wrong.length} wrong; ${count('refused')} lists ` +
        `refused, ${count('not started')} not started, ${count('intact')} answered as before ` +
        `(bits nothing reads), ${bad} crashed or undecided`,
      bound: '0 wrong, 0 crashed',
      holds: wrong.length === 0 && bad === 0,
    },
  ]
}
