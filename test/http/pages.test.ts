/** The routes of the page when its files cannot be had. */
import { expect, test } from 'bun:test'
import type { Refused } from '../../src/api/handler.ts'
import { pageRoutes } from '../../src/http/pages.ts'
import type { Reply } from '../../src/http/reply.ts'

test('a page whose files cannot be loaded is refused, and its promise does not reject', async () => {
  const routes = pageRoutes(() => Promise.reject(new Error('no files')))
  const ended: (Reply | Refused)[] = []
  const request = new Request('http://127.0.0.1/')
  const incoming = { request, isHead: false, ip: () => '127.0.0.1', nowMs: 0 }
  await routes['/']?.(incoming, routed => {
    ended.push(routed)
    return new Response()
  })
  expect(ended).toMatchObject([{ kind: 'refused', error: { code: 'INTERNAL_ERROR' } }])
})
