/**
 * Lists whose rows all hold the number of their import: an answer with two numbers shows half an
 * import. A few rows have a port of their own, and small imports change those alone.
 */
import { rmSync } from 'node:fs'
import { addressOf } from '../../support/rows.ts'

/** The rows that small imports change; so many are seen by every node within a second (contract I3). */
export const FEW_ROWS = 5_000
export const FEW_PORT = 7777
/** Ports of the other rows, in `addressOf`. */
export const MANY_PORTS = [8080, 3128, 80, 1080, 8888, 4145]
/** The number of the first import, as the speed of its rows. */
export const FIRST_SPEED = 1_000

const line = (ip: string, tag: number): string =>
  `{"ip":"${ip}","type":"http","works":"90","speed":${FIRST_SPEED + tag}}\n`

export const fewAddress = (n: number): string => addressOf(n).replace(/:.*/, `:${FEW_PORT}`)

/** Writes a file of `rows` rows, and the few, all with the number of an import. */
export async function writeTagged(file: string, rows: number, tag: number): Promise<void> {
  rmSync(file, { force: true }) // a writer does not shorten a file
  const writer = Bun.file(file).writer({ highWaterMark: 1 << 20 })
  for (let n = 0; n < FEW_ROWS; n += 1) writer.write(line(fewAddress(n), tag))
  for (let n = 0; n < rows; n += 1) {
    writer.write(line(addressOf(n), tag))
    if (n % 10_000 === 0) await writer.flush()
  }
  await writer.end()
}

/** The numbers of the imports that an answer in JSON has rows of, and how many rows of each. */
export function tagsIn(json: string): Map<number, number> {
  const tags = new Map<number, number>()
  for (const [, speed] of json.matchAll(/"speed": ?"?(\d+)/g)) {
    const tag = Number(speed) - FIRST_SPEED
    tags.set(tag, (tags.get(tag) ?? 0) + 1)
  }
  return tags
}

/** The id of an address in the database: IPv4 as 32 bits, then the port as 16. */
export const idOf = (address: string): number =>
  address.split(/[.:]/).reduce((bits, part, i) => bits * (i === 4 ? 65_536 : 256) + Number(part), 0)
