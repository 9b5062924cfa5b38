/** The checklist of the first day: what ticks each of its steps. */
import { afterAll, expect, test } from 'bun:test'
import { loadCurrentFeeds } from '../../src/feeds/feeds-file.ts'
import { withFeeds } from '../../src/sqlite/stores.ts'
import { startConsole } from '../support/console.ts'
import { FEED } from '../support/feeds.ts'
import { addList, T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

test('each step of the first day is done by what it asks for', async () => {
  const dir = temporaryDirectory()
  const settings = {
    data: dir,
    feed: undefined,
    feeds: undefined,
    feedEvery: 60_000,
    providerService: '',
  }
  const { app, value, ask } = startConsole(dir, {
    feeds: {
      feeds: loadCurrentFeeds(settings, () => {}),
      ...{ file: null, isRunning: () => false, fetchNow() {} },
    },
  })
  const done: string[] = []
  const steps = async () => {
    const { setup } = await value('/console/overview')
    return Object.keys(setup).filter(step => setup[step])
  }
  const does = async (step: string, work: () => unknown): Promise<void> => {
    expect(await steps()).toEqual(done)
    await work()
    done.push(step)
    done.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b))
    expect(await steps()).toEqual(done)
  }
  await does('page', () => app.handle(new Request('http://127.0.0.1/')))
  await does('plan', () => ask('/console/plans/wide', { method: 'PUT', json: { daily: 5 } }))
  await does('key', () => ask('/console/keys', { method: 'POST', json: { kind: 'regular' } }))
  await does('feed', () => withFeeds(dir, store => store.keepOnly([FEED], T0)))
  await does('list', () => addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }]))
  expect(await steps()).toEqual(ORDER)
  expect((await value('/console/state')).page_url).toBe('http://127.0.0.1:8080/')
})
const ORDER = ['list', 'feed', 'plan', 'key', 'page']
