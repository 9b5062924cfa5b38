/** The errors of the API: codes with their HTTP status, bodies (spec 2.3), and messages for refusals (spec 7). */
import { type Caller, TEMP_PREFIX } from '../access/key.ts'
import type { NetworkDecision } from '../access/network-quota.ts'
import type { Plan } from '../access/plan.ts'
import type { Decision } from '../access/rate-limit.ts'
import { createFifoMap } from '../lib/bounded-map.ts'
import { StoreError } from '../lib/errors.ts'
import { several } from '../lib/plural.ts'
import { formatInstant } from '../lib/time.ts'
import type { Text } from '../proxies/proxy.ts'

/** `en` and `ru` say when the error is sent. `message`: of codes that have only one. */
type ErrorRule = Text & { status: number; message?: string }

/** All codes that a client can get (spec 7, contract A and B). */
export const ERRORS = {
  KEY_MISSING: {
    status: 400,
    en: 'No key, or an empty one.',
    ru: 'Ключ не передан или пуст.',
  },
  INVALID_PARAMETER: {
    status: 400,
    en: 'A parameter is unknown, repeated or bad; the message says what is accepted. The request does not count.',
    ru: 'Параметр неизвестен, повторён или имеет неверное значение; сообщение называет его и что он принимает. Квота не тратится.',
  },
  INVALID_KEY: {
    status: 403,
    en: 'The key is unknown, revoked or expired, or its plan is turned off.',
    ru: 'Ключ неизвестен, отозван или истёк, или его тариф выключен.',
    message: 'the key is invalid or expired',
  },
  TEMP_KEY_INVALID: {
    status: 403,
    en: 'The temporary key is unknown, revoked or expired.',
    ru: 'Временный ключ неизвестен, отозван или истёк.',
    message: 'the temporary key is expired or not active',
  },
  PROXIES_NOT_FOUND: {
    status: 404,
    en: 'No proxy matches; the message says why, if it can. The request counts.',
    ru: 'Ничего не подошло; сообщение называет причину, если может. Засчитывается как запрос.',
  },
  NOT_FOUND: {
    status: 404,
    en: 'Nothing is served at this path.',
    ru: 'По этому пути ничего нет.',
    message: 'nothing is served here; the list is at /api, and /openapi.json describes it',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    en: 'The method is neither GET nor HEAD.',
    ru: 'Метод — не GET и не HEAD.',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    en: 'The burst limit is reached, or the key has too many long answers in progress.',
    ru: 'Достигнут лимит частоты тарифа или у ключа слишком много длинных ответов сразу.',
  },
  DAILY_LIMIT_REACHED: {
    status: 429,
    en: 'The plan’s requests for this UTC day (`daily_limit`) are used up.',
    ru: 'Запросы тарифа на эти сутки (UTC) закончились; `daily_limit` — сколько их всего.',
  },
  SUBNET_LIMIT_REACHED: {
    status: 429,
    en: 'The answer would exceed the plan’s number of /16 networks per day, or the key was used from too many networks. `used_subnets` says how many are used. Narrow the filter, or lower `count`.',
    ru: 'Ответ превысил бы число сетей /16 тарифа на сутки, или ключом пользовались из слишком многих; `used_subnets` — сколько использовано. Сузьте фильтр или уменьшите `count`.',
  },
  DEMO_LIMIT_REACHED: {
    status: 429,
    en: 'Too many requests with `demo` from one address.',
    ru: 'Слишком много запросов с ключом `demo` с одного адреса.',
  },
  TEMP_LIMIT_REACHED: {
    status: 429,
    en: 'Too many requests with this temporary key, or from one address.',
    ru: 'Слишком много запросов с этим временным ключом или с одного адреса.',
  },
  INTERNAL_ERROR: {
    status: 500,
    en: 'An error in the service; tell the operator the `X-Request-Id`.',
    ru: 'Ошибка сервиса; сообщите его оператору `X-Request-Id`.',
    message: 'an internal error occurred; the request id identifies it',
  },
  DB_EXECUTE_FAILED: {
    status: 503,
    en: 'A database failed or is busy; try again shortly.',
    ru: 'База данных не отвечает или занята; повторите чуть позже.',
    message: 'the database did not answer; try again shortly',
  },
} as const satisfies { readonly [code: string]: ErrorRule }

export type ErrorCode = keyof typeof ERRORS

export const STATUS = Object.fromEntries(
  Object.entries(ERRORS).map(([code, { status }]) => [code, status]),
) as { readonly [code in ErrorCode]: number } // the codes of the table

/** The other members of an error body (spec 2.3). */
type ErrorContext = { retryAfterSeconds?: number; dailyLimit?: number; usedSubnets?: number }

/** An error for the client. The message is sent unchanged. It must not hold a key, SQL, a path or a stack. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly context: ErrorContext
  /** The body without the time. Made when the error is first sent. */
  body: string | null = null

  constructor(code: ErrorCode, message: string, context: ErrorContext = {}) {
    super(message)
    this.code = code
    this.context = context
  }

  get status(): number {
    return STATUS[this.code]
  }
}

/** Converts anything that a request throws to an error that the client may see. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  if (thrown instanceof StoreError) {
    return new ApiError('DB_EXECUTE_FAILED', ERRORS.DB_EXECUTE_FAILED.message, {
      retryAfterSeconds: 1,
    })
  }
  return new ApiError('INTERNAL_ERROR', ERRORS.INTERNAL_ERROR.message)
}

/** The JSON body of an error (spec 2.3). */
export function errorBody(error: ApiError, nowMs: number): string {
  const { retryAfterSeconds, dailyLimit, usedSubnets } = error.context
  error.body ??= JSON.stringify({
    ...{ status: 'error', code: error.code, message: error.message, timestamp: '' },
    retry_after: error.status === 429 ? retryAfterSeconds : undefined,
    daily_limit: dailyLimit,
    used_subnets: usedSubnets,
  })
  const name = '"timestamp":"' // in the message, its quotes are escaped
  return error.body.replace(name, name + formatInstant(nowMs))
}

type Refused<D extends { kind: string }> = Extract<D, { kind: 'refused' }>

/** The 403 for a key that is unknown, revoked or expired, or whose plan is off. */
export function invalidKey(key: string): ApiError {
  const code = key.startsWith(TEMP_PREFIX) ? 'TEMP_KEY_INVALID' : 'INVALID_KEY'
  return new ApiError(code, ERRORS[code].message)
}

const burstOf = ({ burst }: Plan): string =>
  burst === null ? '' : `${several(burst.requests, 'request')} in ${burst.seconds} s`

type LimitRefusal = { code: ErrorCode; message: (plan: Plan) => string }
const DAILY_REFUSAL: LimitRefusal = {
  code: 'DAILY_LIMIT_REACHED',
  message: ({ daily }) => `the plan's ${daily ?? 0} requests of this day are used up`,
}
const WINDOW_REFUSALS: { [kind in Caller['kind']]: LimitRefusal } = {
  regular: { code: 'RATE_LIMIT_EXCEEDED', message: () => 'too many requests' },
  demo: { code: 'DEMO_LIMIT_REACHED', message: plan => `the demo key allows ${burstOf(plan)}` },
  temp: {
    code: 'TEMP_LIMIT_REACHED',
    message: plan => `a temporary key allows ${burstOf(plan)}, for the key and for the address`,
  },
}

/** The 429 for a request that was not admitted. */
export function rateLimitRefusal(
  { kind, plan }: Caller,
  { by, retryAfterSeconds }: Refused<Decision>,
): ApiError {
  const { code, message: reason } = by === 'daily' ? DAILY_REFUSAL : WINDOW_REFUSALS[kind]
  const message = `${reason(plan)}; retry after ${retryAfterSeconds} s`
  const known = knownRefusals.get(message)
  if (known !== undefined) return known
  const daily = by === 'daily' ? { dailyLimit: plan.daily ?? 0 } : {}
  const refusal = new ApiError(code, message, { retryAfterSeconds, ...daily })
  knownRefusals.set(message, refusal)
  return refusal
}
/** By message. Programs that are over their limits get the same refusal again and again. */
const knownRefusals = createFifoMap<string, ApiError>(1_000)

/** The 429 for an answer whose networks exceed a quota. */
export function networkRefusal(decision: Refused<NetworkDecision>): ApiError {
  const { set, quota, used, added, all, retryAfterSeconds } = decision
  const reason =
    all > quota
      ? `this answer has ${all} /16 subnets, and the plan allows ${quota} a day`
      : `this answer needs ${added} more /16 subnets; ${used} of the ${quota} a day are used`
  const message =
    set === 'served'
      ? `${reason}: narrow the filter or lower count`
      : `${used} of the ${quota} client networks a day are used`
  return new ApiError('SUBNET_LIMIT_REACHED', message, { retryAfterSeconds, usedSubnets: used })
}
