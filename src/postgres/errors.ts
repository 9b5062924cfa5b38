/**
 * Owns what failures of PostgreSQL mean, as sentences for the operator. None holds a password, and no
 * text of the server that could hold one of a key is passed on.
 */
import { SQL } from 'bun'
import { codeOf, messageOf, StoreError } from '../lib/errors.ts'

/**
 * The failure of a statement of which nobody knows whether it was carried out: the connection was lost,
 * or it was given up. It must not be sent again.
 */
export class UnknownOutcome extends StoreError {}

/** What a SQLSTATE, or the first characters of one, means (PostgreSQL, appendix A). */
const STATES: { readonly [state: string]: string } = {
  '08': 'the connection was lost',
  '25006': 'it is read-only: a standby, or it was set so',
  '28': 'it refuses this user or password',
  '3D000': 'there is no database of this name',
  '40001': 'it could not decide between transactions that met',
  '40P01': 'it ended a deadlock',
  '42501': 'this role lacks a right that is needed',
  '53': 'it lacks a resource: connections, memory or disk',
  '55P03': 'a lock was not free in time',
  '57014': 'it took too long',
  '57P': 'it is shutting down, starting or was restarted',
}

/** The SQLSTATE of a failure; `''` for one that is not of the server. */
export const stateOf = (thrown: unknown): string =>
  thrown instanceof SQL.PostgresError ? (thrown.errno ?? '') : ''

/** Whether a failure is one of the database or of the connection to it, not of our own code. */
export const isDatabaseFailure = (thrown: unknown): boolean =>
  thrown instanceof SQL.SQLError || codeOf(thrown).startsWith('ERR_POSTGRES')

const CLIENT_CODES: { readonly [code: string]: string } = {
  ERR_POSTGRES_CONNECTION_REFUSED: 'nothing listens there',
  ERR_POSTGRES_CONNECTION_CLOSED: 'the connection was lost',
  ERR_POSTGRES_CONNECTION_TIMEOUT: 'it does not answer',
}

/** Failures to open a connection: nothing was sent. */
const NOT_OPENED: readonly string[] = [
  ...['ERR_POSTGRES_CONNECTION_REFUSED', 'ERR_POSTGRES_CONNECTION_TIMEOUT'],
  ...['53300', '57P03', '3D000'],
]

/** Whether a failure is that of opening a connection, so that the next attempt would fail likewise. */
export const isNotOpened = (thrown: unknown): boolean => {
  const state = stateOf(thrown)
  return NOT_OPENED.includes(state === '' ? codeOf(thrown) : state) || state.startsWith('28')
}

/**
 * Whether statements after this failure need another connection: this one has ended, or its server
 * has become a standby.
 */
export function isConnectionFailure(thrown: unknown): boolean {
  const state = stateOf(thrown)
  if (state === '') return isDatabaseFailure(thrown)
  return isNotOpened(thrown) || /^(?:08|57P|25006)/.test(state)
}

/** Whether a failure leaves open whether the statement was carried out. */
const isOutcomeUnknown = (thrown: unknown): boolean => {
  const state = stateOf(thrown)
  return !isNotOpened(thrown) && (state === '' || /^(?:08|57P)/.test(state))
}

/** Why a call of the database failed, as the end of a sentence. */
export function reasonOf(thrown: unknown): string {
  const state = stateOf(thrown)
  return (
    STATES[state] ??
    STATES[state.slice(0, 3)] ??
    STATES[state.slice(0, 2)] ??
    CLIENT_CODES[codeOf(thrown)] ??
    (isDatabaseFailure(thrown) ? `it failed (${state || codeOf(thrown)})` : messageOf(thrown))
  )
}

/** The failure of a store; what is no failure of the database stays what it is. */
export function toStoreError(thrown: unknown, shown: string): unknown {
  if (!isDatabaseFailure(thrown)) return thrown
  const Failure = isOutcomeUnknown(thrown) ? UnknownOutcome : StoreError
  return new Failure(`the database ${shown} cannot be used: ${reasonOf(thrown)}`, { cause: thrown })
}
