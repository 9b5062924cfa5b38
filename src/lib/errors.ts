/** Owns the errors that any part of a program may throw: of a command, and of a store. */

/** A failure of the command line, shown to the operator as one line; `exitCode` 1 failed, 2 usage. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: 1 | 2

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/**
 * A store that failed or must not be used as it is. The message is for the operator: it may name
 * files, so no client sees it. Only adapters of a database throw it.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** Whether the stored data is not what was written, and will not recover without help. */
  readonly isDamage: boolean

  constructor(
    message: string,
    { isDamage = false, cause }: { isDamage?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.isDamage = isDamage
  }
}

/** The message of anything thrown, for the operator. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)
