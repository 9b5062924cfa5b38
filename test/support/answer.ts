/** What a request gets, whole and in the short form that tests compare. */
import { ASK } from './fixtures.ts'

export type Answer = { status: number; headers: Headers; text: string; bytes: Uint8Array }

export const answerOf = async (response: Response): Promise<Answer> => {
  const bytes = await response.bytes()
  const text = new TextDecoder().decode(bytes)
  return { status: response.status, headers: response.headers, text, bytes }
}

type Asked = { request(path: string, init?: RequestInit): Promise<Answer> }

/** The status, then the error's code or the whole body. */
export const shortOf = (status: number, text: string): string =>
  `${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? text}`

/** Asks a service; gives the status, then the error's code or the whole body. */
export async function ask(service: Asked, path = ASK, init: RequestInit = {}): Promise<string> {
  const { status, text } = await service.request(path, init)
  return shortOf(status, text)
}

/** As if from another client: the servers of tests believe X-Forwarded-For. */
export const from = (client: string): RequestInit => ({ headers: { 'x-forwarded-for': client } })
