/** Owns `list`: prints the API's answer to a query, without key or limits. */

import { bodyOf, createAnswerFinder } from '../api/answer.ts'
import { ApiError } from '../api/errors.ts'
import { createParamsParser } from '../api/params.ts'
import { readList } from '../app.ts'
import { CommandError } from '../lib/errors.ts'
import { splitQueryString } from '../lib/query-string.ts'
import { command, print } from './command.ts'

export const listCommand = command({
  name: 'list',
  summary: 'answer a query string of the API, without key or limits',
  arguments: '[query]',
  settings: ['data', 'providerService'],
  example: "proxylist list 'type=socks5&country=de&get=json'",
  async run({ settings: { data, providerService }, args: [text = ''], clock }) {
    const query = { ...parse(text.replace(/^\?/, ''), providerService), addressBits: 32 } as const
    const nowMs = clock()
    const { answer } = await readList(data, clock, ({ finder }) =>
      createAnswerFinder<never>(finder, providerService)(query, nowMs),
    )
    if (answer.records === 0) throw new CommandError('no proxies match the filters')
    await print(bodyOf(answer, nowMs))
  },
})

function parse(text: string, provider: string) {
  try {
    return createParamsParser(provider)(splitQueryString(text))
  } catch (error) {
    throw error instanceof ApiError ? new CommandError(error.message, 2) : error
  }
}
