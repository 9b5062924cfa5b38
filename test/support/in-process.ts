/** Owns the service in process, on the stores that `serve` uses, its clock moved by hand. */
import { type AppStores, createApp, openServerList, openServerRegistry } from '../../src/app.ts'
import { readOrigins, readRanges } from '../../src/config/parsers.ts'
import { answerOf } from './answer.ts'
import { T0 } from './fixtures.ts'
import type { ServeOptions, Service } from './service.ts'
import { onCleanUp } from './temporary.ts'

/** A request in process has no peer, as on a unix socket; tests expect one of 127.0.0.1. */
const PEER = '127.0.0.1'

/** Gives stores that take the place of those of a whole service. */
export type Exchange = (whole: AppStores) => Partial<AppStores>

export async function startInProcess(
  dir: string,
  options: ServeOptions,
  exchange: Exchange = () => ({}),
): Promise<Service> {
  const { errors = 'json', providerService = 'the service', cors, later, onRepeated } = options
  const { page = 'on', publicStats = 'full' } = options
  let nowMs = T0
  const lines: string[] = []
  const write = (text: string): void => void lines.push(text)
  const clock = () => nowMs
  const registry = openServerRegistry(dir, write)
  const list = openServerList(dir, providerService, clock, write)
  const { keys, usage } = registry
  const { streamer, stats } = list
  const stores: AppStores = { keys, usage, proxies: list, streamer, stats }
  const app = createApp(
    { ...stores, ...exchange(stores) },
    {
      ...{ errors, providerService, cacheBytes: 2 ** 20, trustProxy: readRanges(PEER) },
      ...{ page, publicStats },
      cors: cors === undefined ? undefined : readOrigins(cors),
    },
    clock,
    {
      ...{ hasLines: true, line: write, say: write, close: async () => {} },
      sayRepeated(topic, sentence) {
        onRepeated?.(topic)
        write(sentence)
      },
    },
    later,
  )
  if (later === undefined) app.releaseDelayed()
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => {
    const request = new Request(`http://${PEER}${path}`, init)
    const forwardedFor = request.headers.get('x-forwarded-for')
    request.headers.set('x-forwarded-for', forwardedFor ? `${forwardedFor}, ${PEER}` : PEER)
    return app.handle(request)
  }
  let isOpen = true
  const stop = async (): Promise<void> => {
    if (!isOpen) return
    isOpen = false
    list.close()
    registry.close()
  }
  onCleanUp(stop)
  return {
    request: async (path, init) => answerOf(await ask(path, init)),
    setClock: seconds => {
      nowMs = T0 + seconds * 1000
    },
    output: () => lines.join('\n'),
    stop,
  }
}
