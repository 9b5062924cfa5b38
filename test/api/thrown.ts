/** Telling apart what reading gives: a value, or the `ApiError` that it throws. */
import { ApiError } from '../../src/api/errors.ts'

/** What `work` gives, or the error that it throws; anything but an ApiError is thrown on. */
export function resultOf<T>(work: () => T): T | ApiError {
  try {
    return work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}

/** The error that `work` throws; anything but an ApiError fails the test. */
export function refusal(work: () => unknown): ApiError {
  const result = resultOf(work)
  if (result instanceof ApiError) return result
  throw new Error(`nothing was refused, but read as ${Bun.inspect(result)}`)
}

/** What `work` gives, or `null` when it is refused; anything but an ApiError is thrown on. */
export function unlessRefused<T>(work: () => T): T | null {
  const result = resultOf(work)
  return result instanceof ApiError ? null : result
}
