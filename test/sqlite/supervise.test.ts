/** Holds what a supervisor does for a store that fails: when it opens it again, and what it says. */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { CommandError, StoreError } from '../../src/lib/errors.ts'
import { supervise } from '../../src/sqlite/supervise.ts'

const FILE = '/data/some.db'
const RESTORE = 'restore a backup with: proxylist restore --force FILE'
const END = '; answering 503 until that is over'

/** A failure of SQLite, as it comes from another thread too. */
const sqliteError = (code: string, message = code): Error =>
  Object.assign(new Error(message), { name: 'SQLiteError', code })
const UNUSABLE = sqliteError('SQLITE_IOERR_READ')
const UNUSABLE_SENTENCE = `${FILE} cannot be read or written (input/output error, or ulimit -f)`
const BUSY = sqliteError('SQLITE_BUSY')
const BUSY_SENTENCE = `${FILE} is locked by another process`

/** What `work` throws. */
function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

/** A supervisor of numbered stores, what is wrong with them at the moment, and what was said. */
function supervised(hasFirst: boolean) {
  const trouble: { open?: Error; verify?: Error; probe?: Error } = {}
  const said: string[] = []
  const closed: number[] = []
  const failures: unknown[] = []
  const raise = (failure: Error | undefined): void => {
    if (failure) throw failure
  }
  let opened = hasFirst ? 1 : 0
  const supervisor = supervise(hasFirst ? { number: 1 } : null, {
    file: FILE,
    reopen() {
      raise(trouble.open)
      opened += 1
      return { number: opened }
    },
    close: ({ number }) => void closed.push(number),
    verify: () => raise(trouble.verify),
    probe: () => raise(trouble.probe),
    onFailure: failure => void failures.push(failure),
    say: sentence => void said.push(sentence),
  })
  const number = () => supervisor.use(store => store.number)
  /** What a use throws in which `failure` is thrown. */
  const failWith = (failure: Error) => thrownBy(() => supervisor.use(() => raise(failure)))
  return { supervisor, trouble, said, closed, failures, number, failWith }
}

test('a store that fails is not closed under the work around the one that failed', () => {
  const { supervisor, closed, said } = supervised(true)
  const inner = () =>
    supervisor.use(() => {
      throw UNUSABLE
    })
  const thrown = thrownBy(() =>
    supervisor.use(() => {
      try {
        inner()
      } finally {
        expect(closed).toEqual([])
      }
    }),
  )
  expect(thrown).toMatchObject({ name: 'StoreError', message: UNUSABLE_SENTENCE, cause: UNUSABLE })
  expect(closed).toEqual([1])
  expect(said).toEqual([UNUSABLE_SENTENCE + END])
})

describe('a store that fails', () => {
  test('is kept when opening it again would not help, which is said once', () => {
    const { supervisor, trouble, said, closed, number, failWith } = supervised(true)
    for (const _ of [1, 2, 3]) failWith(BUSY)
    trouble.probe = BUSY
    for (const _ of [1, 2]) supervisor.tick()
    expect([number(), closed]).toEqual([1, []])
    expect(said).toEqual([BUSY_SENTENCE + END])
    delete trouble.probe
    for (const _ of [1, 2]) supervisor.tick()
    expect(said.slice(1)).toEqual([`${FILE} works again`])
  })

  test('is closed when it is unusable, and opened again by the next tick', () => {
    const { supervisor, closed, number, failWith, said } = supervised(true)
    failWith(UNUSABLE)
    expect(closed).toEqual([1])
    expect(thrownBy(number)).toEqual(new StoreError(UNUSABLE_SENTENCE)) // not only that it is closed
    const before = supervisor.generation()
    supervisor.tick()
    expect(number()).toBe(2)
    expect(supervisor.generation()).toBe(before + 1)
    expect(said).toEqual([UNUSABLE_SENTENCE + END, `${FILE} works again`])
  })

  test('is opened again and again until that can be done', () => {
    const { supervisor, trouble, number, said } = supervised(false)
    trouble.open = new StoreError('it is missing')
    for (const _ of [1, 2, 3]) supervisor.tick()
    expect(thrownBy(number)).toBeInstanceOf(StoreError)
    delete trouble.open
    supervisor.tick()
    expect(number()).toBe(1)
    expect(said).toEqual([`it is missing${END}`, `${FILE} works again`])
  })

  test('is closed when another file is found in its place', () => {
    const { supervisor, trouble, closed } = supervised(true)
    trouble.verify = new StoreError('replaced')
    supervisor.tick()
    expect(closed).toEqual([1])
  })

  test('what follows from a failure is not said, what was found out about it is', () => {
    const { supervisor, trouble, said, failWith } = supervised(true)
    failWith(BUSY)
    failWith(sqliteError('SQLITE_ERROR', 'no such table'))
    trouble.verify = new StoreError('damaged')
    for (const _ of [1, 2]) supervisor.tick()
    expect(said).toEqual([BUSY_SENTENCE + END, `damaged${END}`])
  })
})

test('its health is whether it works, as far as is known, and every failure so far', () => {
  const { supervisor, trouble, failWith } = supervised(true)
  expect(supervisor.health()).toEqual({ works: true, failures: 0 })
  failWith(BUSY)
  failWith(BUSY)
  expect(supervisor.health()).toEqual({ works: false, failures: 2 })
  supervisor.tick()
  expect(supervisor.health()).toEqual({ works: true, failures: 2 })
  failWith(UNUSABLE)
  trouble.open = new StoreError('it is missing')
  supervisor.tick()
  expect(supervisor.health()).toEqual({ works: false, failures: 4 })
  delete trouble.open
  supervisor.tick()
  expect(supervisor.health()).toEqual({ works: true, failures: 4 })
  expect(supervised(false).supervisor.health()).toEqual({ works: false, failures: 0 })
})

describe('a use throws', () => {
  const SENTENCES: readonly (readonly [code: string, sentence: string, isDamage: boolean])[] = [
    ['SQLITE_BUSY_SNAPSHOT', BUSY_SENTENCE, false],
    [
      'SQLITE_FULL',
      `${FILE} cannot be written (the disk is full: no space or inodes; or that of temporary files, TMPDIR)`,
      false,
    ],
    ['SQLITE_READONLY', `${FILE} cannot be written (read-only file or directory)`, false],
    ['SQLITE_IOERR_WRITE', UNUSABLE_SENTENCE, false],
    ['SQLITE_IOERR_SHORT_READ', UNUSABLE_SENTENCE, true],
    ['SQLITE_NOTADB', `${FILE} is not a database; ${RESTORE}`, true],
    ['SQLITE_CORRUPT_INDEX', `${FILE} is damaged; ${RESTORE}`, true],
    ['SQLITE_ERROR', `${FILE} cannot be used (SQLITE_ERROR)`, false],
  ]
  test.each(SENTENCES)(
    'a StoreError with a sentence about the file for %s',
    (code, sentence, isDamage) => {
      const { failWith, failures } = supervised(true)
      const failure = sqliteError(code)
      const thrown = failWith(failure)
      if (!(thrown instanceof StoreError)) throw thrown
      expect([thrown.message, thrown.isDamage]).toEqual([sentence, isDamage])
      expect(thrown.cause).toBe(failure)
      expect(failures).toEqual([failure])
    },
  )

  test('the same for what SQLite itself throws', () => {
    const { supervisor } = supervised(true)
    using db = new Database(':memory:')
    const thrown = thrownBy(() => supervisor.use(() => db.run('select * from missing')))
    expect(thrown).toMatchObject({
      name: 'StoreError',
      message: `${FILE} cannot be used (no such table: missing)`,
    })
  })

  test('a StoreError as it is', () => {
    const { failWith, failures, closed } = supervised(true)
    const failure = new StoreError('replaced', { isDamage: true })
    expect(failWith(failure)).toBe(failure)
    expect([failures, closed]).toEqual([[failure], [1]])
  })

  test('an error of our own code unchanged, and it is no failure of the store', () => {
    const mistakes = [new TypeError('a mistake'), new CommandError('wrong usage'), new Error('one')]
    for (const mistake of mistakes) {
      const { said, closed, failures, failWith } = supervised(true)
      expect(failWith(mistake)).toBe(mistake)
      expect([said, closed, failures]).toEqual([[], [], []])
    }
  })
})

test('a supervisor that is closed opens nothing any more', () => {
  const { supervisor, closed, number } = supervised(true)
  supervisor.close()
  supervisor.tick()
  expect(closed).toEqual([1])
  expect(thrownBy(number)).toBeInstanceOf(StoreError)
})
