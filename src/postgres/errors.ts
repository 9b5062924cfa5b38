/** What failures of PostgreSQL mean, for the operator. The texts of the server are left out: they may contain a key. */
import { codeOf, messageOf, StoreError, UnknownOutcome } from '../lib/errors.ts'

/** No host of the database takes a connection, so nothing was sent; the message says why. */
export class NotOpened extends Error {}

const OTHER_SCHEMA =
  'its schema is missing, or not the one that this proxylist uses; see: proxylist doctor'

/** The meaning of a SQLSTATE, or of its first characters (PostgreSQL, appendix A). */
const STATES: { readonly [state: string]: string } = {
  '08': 'the connection was lost',
  '0A000': 'it is a standby, or does not support what PostgreSQL does',
  '23503': 'a plan that the key needs was just removed',
  '25': 'it is read-only: a standby, or it was set so',
  '28000': 'it does not let this user log in, or not from here, or only with TLS (pg_hba.conf)',
  '28': 'it refuses this user or password',
  '3F000': OTHER_SCHEMA,
  '3D000': 'there is no database of this name',
  '23505': 'another machine has written the same first',
  '42': OTHER_SCHEMA,
  '42501':
    'this role lacks a right that is needed: run rights.sql (proxylist help machines); a schema is ' +
    'made and upgraded by a command that writes, such as plans set standard, as its owner',
  '53100': 'its disk is full',
  '53300': 'it accepts no more connections; proxylist help machines says how to see what uses them',
  '55P03': 'a row stays locked by another session',
  '57014': 'it took too long',
  '57P': 'it is shutting down, starting or was restarted',
}

/** The SQLSTATE of a failure; `''` for one that is not of the server. */
export const stateOf = (thrown: unknown): string =>
  thrown instanceof Bun.SQL.PostgresError ? (thrown.errno ?? '') : ''

const CLIENT_CODES: { readonly [code: string]: string } = {
  ERR_POSTGRES_CONNECTION_CLOSED: 'the connection was lost',
  ERR_POSTGRES_CONNECTION_REFUSED: 'the connection was refused, or there is no such host',
  ERR_POSTGRES_CONNECTION_TIMEOUT: 'it does not answer',
  ERR_POSTGRES_TLS_NOT_AVAILABLE: 'it offers no TLS, which sslmode asks for',
  ECONNRESET: 'the connection was lost',
}
/** Codes such as ERR_POSTGRES_TLS_UPGRADE_FAILED, CERT_HAS_EXPIRED and SELF_SIGNED_CERT_IN_CHAIN. */
const TLS_CODE = /TLS|CERT|ISSUER|SIGNATURE|BORINGSSL|EPROTO/

/** The meaning of a failure of the client; `null`: it is a failure of other code. */
const clientReason = (code: string): string | null =>
  CLIENT_CODES[code] ??
  (TLS_CODE.test(code)
    ? `TLS failed (${code}); see sslmode, sslrootcert and the certificate`
    : null)

/** Whether a failure is one of the database or of the connection to it, not of our own code. */
const isDatabaseFailure = (thrown: unknown): boolean =>
  thrown instanceof NotOpened ||
  thrown instanceof Bun.SQL.SQLError ||
  codeOf(thrown).startsWith('ERR_POSTGRES') ||
  clientReason(codeOf(thrown)) !== null

/** Whether the next statement needs another connection: this one has ended, or leads to a standby. */
export function isConnectionFailure(thrown: unknown): boolean {
  const state = stateOf(thrown)
  if (state === '') return isDatabaseFailure(thrown)
  return /^(?:08|57P|25006|25P0[34])/.test(state)
}

const isOutcomeUnknown = (thrown: unknown): boolean =>
  !(thrown instanceof NotOpened) && /^(?:$|08|57P)/.test(stateOf(thrown))

/** Whether a failure of a store says that the database cannot be reached, or does not answer. */
export const isUnreachable = (failure: unknown): boolean =>
  failure instanceof UnknownOutcome ||
  (failure instanceof StoreError && failure.cause instanceof NotOpened)

export function reasonOf(thrown: unknown): string {
  if (thrown instanceof NotOpened) return thrown.message
  const state = stateOf(thrown)
  return (
    STATES[state] ??
    STATES[state.slice(0, 3)] ??
    STATES[state.slice(0, 2)] ??
    clientReason(codeOf(thrown)) ??
    (isDatabaseFailure(thrown) ? `it failed (${state || codeOf(thrown)})` : messageOf(thrown))
  )
}

/** Turns a failure of the database into a failure of the store; returns any other failure unchanged. */
export function toStoreError(thrown: unknown, shown: string): unknown {
  if (!isDatabaseFailure(thrown)) return thrown
  const Failure = isOutcomeUnknown(thrown) ? UnknownOutcome : StoreError
  return new Failure(`the database ${shown} cannot be used: ${reasonOf(thrown)}`, {
    cause: thrown,
  })
}
