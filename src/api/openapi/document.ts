/** Owns the OpenAPI 3.1 document of the service (contract F5), for one configuration and language. */
import type { Lang } from '../../proxies/proxy.ts'
import { STATS_EXAMPLE } from './examples.ts'
import { parameters, type Say } from './parameters.ts'
import {
  apiResponses,
  type ErrorForm,
  headerComponents,
  keyResponses,
  stateResponses,
  statsResponses,
} from './responses.ts'
import type { Document, Operation } from './schema.ts'
import { type StatsPart, schemas } from './schemas.ts'
import { DOCUMENT_TEXTS } from './texts/document.ts'

/** What of a server's configuration the document shows. */
export type DocumentOptions = {
  /** Of the program. */
  version: string
  /** The name of the provider's own service. */
  provider: string
  errors: 'json' | 'text'
  stats: StatsPart
  lang: Lang
}

/** In the header only: a generated client then keeps the key out of URLs. */
const BEARER = { type: 'http', scheme: 'bearer' }
const WITH_KEY = [{ bearer: [] }]

type Named = 'api' | 'key' | 'stats' | 'health' | 'ready'

/** An operation without its responses. */
const operation = (
  name: Named,
  tag: 'list' | 'key' | 'operation',
  say: Say,
): Pick<Operation, 'tags' | 'summary' | 'description'> => ({
  tags: [tag],
  summary: say(DOCUMENT_TEXTS[`${name}.summary`]),
  description: say(DOCUMENT_TEXTS[`${name}.description`]),
})

function paths({ version, provider, stats, errors }: DocumentOptions, say: Say): Document['paths'] {
  const form: ErrorForm = { errors, say }
  return {
    '/api': {
      get: {
        operationId: 'listProxies',
        ...operation('api', 'list', say),
        security: WITH_KEY,
        parameters: parameters(provider, say),
        responses: apiResponses(provider, form),
      },
    },
    '/key': {
      get: {
        operationId: 'showKey',
        ...operation('key', 'key', say),
        security: WITH_KEY,
        responses: keyResponses(form),
      },
    },
    ...(stats !== 'off' && {
      '/stats': {
        get: {
          operationId: 'countProxies',
          ...operation('stats', 'list', say),
          security: [],
          responses: statsResponses(STATS_EXAMPLE(version, provider, stats), form),
        },
      },
    }),
    '/healthz': {
      get: {
        operationId: 'isAlive',
        ...operation('health', 'operation', say),
        security: [],
        responses: stateResponses('health', form),
      },
    },
    '/readyz': {
      get: {
        operationId: 'isReady',
        ...operation('ready', 'operation', say),
        security: [],
        responses: stateResponses('ready', form),
      },
    },
  }
}

export function createDocument(options: DocumentOptions): Document {
  const { version, provider, errors, stats, lang } = options
  const say: Say = ([en, ru]) => (lang === 'ru' ? ru : en)
  const about = DOCUMENT_TEXTS[errors === 'json' ? 'errorsJson' : 'errorsText']
  return {
    openapi: '3.1.1',
    info: {
      title: 'proxylist',
      version,
      summary: say(DOCUMENT_TEXTS.summary),
      description: `${say(DOCUMENT_TEXTS.about)}\n\n${say(about)}`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: (['list', 'key', 'operation'] as const).map(name => ({
      name,
      description: say(DOCUMENT_TEXTS[`tag.${name}`]),
    })),
    paths: paths(options, say),
    components: {
      securitySchemes: { bearer: BEARER },
      headers: headerComponents(say),
      schemas: schemas(provider, errors, stats, say),
    },
  }
}
