/** Errors as messages between threads: what survives, and what class they have afterwards. */
import { afterAll, describe, expect, test } from 'bun:test'
import { StoreError } from '../../src/lib/errors.ts'
import { type ErrorMessage, toError, toErrorMessage } from '../../src/lib/worker.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** An error as another thread receives it. */
const sent = (thrown: unknown): Error => toError(structuredClone(toErrorMessage(thrown)))

class SqliteError extends Error {
  override readonly name = 'SqliteError'
  readonly code = 'SQLITE_BUSY'
}

describe('toErrorMessage', () => {
  const isDamage = true
  const CASES: readonly (readonly [
    what: string,
    thrown: unknown,
    message: Partial<ErrorMessage>,
  ])[] = [
    ['an error', new TypeError('no'), { name: 'TypeError' }],
    ['an error with a code', new SqliteError('no'), { name: 'SqliteError', code: 'SQLITE_BUSY' }],
    [
      'an error with a code that is a number',
      Object.assign(new Error('no'), { code: 11 }),
      { code: '11' },
    ],
    ['a failed store', new StoreError('no'), { name: 'StoreError' }],
    ['a damaged store', new StoreError('no', { isDamage }), { name: 'StoreError', isDamage }],
    ['an error that only claims to be damage', Object.assign(new Error('no'), { isDamage }), {}],
    ['a text', 'no', {}],
    ['nothing', undefined, { message: 'undefined' }],
  ]
  test.each(CASES)('describes %s', (_, thrown, message) => {
    const usual = { name: 'Error', message: 'no', code: '', isDamage: false }
    expect(toErrorMessage(thrown)).toEqual({ ...usual, ...message })
  })
})

describe('toError', () => {
  test.each([true, false])('keeps a StoreError, damage: %p', isDamage => {
    const error = sent(new StoreError('the list', { isDamage }))
    expect(error).toBeInstanceOf(StoreError)
    expect(error).toMatchObject({ name: 'StoreError', message: 'the list', isDamage })
  })

  test('turns any other value into an Error with its name, message and code', () => {
    const error = sent(new SqliteError('locked'))
    expect(error).not.toBeInstanceOf(StoreError)
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ name: 'SqliteError', message: 'locked', code: 'SQLITE_BUSY' })
  })
})
