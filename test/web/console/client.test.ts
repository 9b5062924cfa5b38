/** The console's token, requests and uploads, without a browser. */
import { afterEach, describe, expect, test } from 'bun:test'
import { createClient } from '../../../src/web/console/client.ts'

const servers: { stop(): unknown }[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.stop()
})

/** A listener that answers with `answer`; requests of the console are sent to it. */
function listen(answer: (request: Request) => Response | Promise<Response>): string {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
  servers.push({ stop: () => server.stop(true) })
  return `http://127.0.0.1:${server.port}`
}

const clientOf = (onUnauthorized: (message: string) => void = () => {}) =>
  createClient('TOKEN', onUnauthorized)

/** What a promise is rejected with. */
const errorOf = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => {
      throw new Error('it was not rejected')
    },
    error => error,
  )

describe('a request', () => {
  test.each([
    ['<html>', 'the server answered with status 502'],
    ['null', 'the server answered with status 502'],
  ])('that something else answers with %p says the status', async (body, message) => {
    const origin = listen(() => new Response(body, { status: 502 }))
    expect((await errorOf(clientOf().get(`${origin}/x`))).message).toBe(message)
  })
})

describe('an upload', () => {
  const FILE = new Blob(['192.0.2.1:80\n'])
  /** The lines of an upload, and the error that ends it. */
  async function upload(origin: string) {
    const lines: unknown[] = []
    const { signal } = new AbortController()
    try {
      for await (const line of clientOf().upload(`${origin}/x`, FILE, signal)) lines.push(line)
    } catch (error) {
      lines.push((error as Error).message)
    }
    return lines
  }

  test('sends the file with a type that no form has, and gives the lines as they arrive', async () => {
    const seen: string[] = []
    const origin = listen(async request => {
      seen.push(await request.text(), `${request.headers.get('content-type')}`)
      const parts = ['{"n":1}\n{"n"', ':2}\n', '{"cut']
      return new Response(
        new ReadableStream({
          pull(controller) {
            const part = parts.shift()
            if (part === undefined) controller.close()
            else controller.enqueue(Buffer.from(part))
          },
        }),
      )
    })
    expect(await upload(origin)).toEqual([{ n: 1 }, { n: 2 }])
    expect(seen).toEqual(['192.0.2.1:80\n', 'application/octet-stream'])
  })
})
