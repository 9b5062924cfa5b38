/** Errors of commands and stores, their messages, and waits that an `AbortSignal` ends. */
import { getSystemErrorMessage } from 'node:util'
import { withoutPassword } from './redact.ts'

/** 1: failed; 2: wrong usage; otherwise 128 plus the number of the signal that ended the command. */
type ExitCode = 1 | 2 | 129 | 130 | 143

/** A failure of the command line, shown to the operator as one line. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A store failed. The message may name files, so clients never see it. Only adapters of a database throw it. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** Whether the stored data is damaged. An operator has to repair it. */
  readonly isDamage: boolean

  constructor(
    message: string,
    { isDamage = false, cause }: { isDamage?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.isDamage = isDamage
  }
}

/** The store may or may not have done the work. Do not retry the call. */
export class UnknownOutcome extends StoreError {}

export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)

/** The code of an error, such as `ENOENT` or `SQLITE_BUSY`; `''` when it has none. */
export const codeOf = (thrown: unknown): string =>
  thrown instanceof DOMException || !(thrown instanceof Error && 'code' in thrown)
    ? '' // a DOMException, such as of a timeout, has a number that says nothing
    : String(thrown.code)

/** Explanations of error codes, clearer than the system's. */
const REASONS: { readonly [code: string]: string } = {
  EISDIR: 'it is a directory, not a file',
  ENOTDIR: 'a part of its path is a file',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'it is not text in UTF-8; save it as UTF-8',
}

/** Why a system call failed, such as `permission denied`; `null` for any other failure. */
export const systemReasonOf = (thrown: unknown): string | null =>
  REASONS[codeOf(thrown)] ??
  (thrown instanceof Error && 'syscall' in thrown && 'errno' in thrown
    ? getSystemErrorMessage(-Math.abs(Number(thrown.errno))) // positive in some errors of rm
    : null)

/** Why something failed, for the operator: without names of system calls if possible. */
export const reasonOf = (thrown: unknown): string => systemReasonOf(thrown) ?? messageOf(thrown)

/** The error for a file that cannot be read; `what` is its name as the operator gave it. */
export const unreadable = (what: string, thrown: unknown, exitCode?: ExitCode): CommandError =>
  new CommandError(`cannot read ${withoutPassword(what)}: ${reasonOf(thrown)}`, exitCode)

/** Yields to the event loop. Long work calls it now and then. @throws the reason of an aborted `signal`. */
export async function nextTurn(signal?: AbortSignal): Promise<void> {
  await new Promise<void>(resume => setImmediate(resume))
  signal?.throwIfAborted()
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => resolve())
  if (signal.aborted) resolve()
  return promise
}

/** Settles like `promise`, or rejects with the reason of `signal` when it is aborted. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** The chunks of `source` until it ends. Rejects when `signal` is aborted, even while it waits for a chunk. */
export async function* chunksUntilAborted(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await orAborted(chunks.next(), signal)
      if (next.done) return
      yield next.value
    }
  } finally {
    chunks.return?.()?.catch(() => {}) // not awaited: the source may hang
  }
}
