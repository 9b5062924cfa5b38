/** Reading files that a client or an operator names. */
import { afterAll, expect, test } from 'bun:test'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bytesOfFile } from '../../src/lib/files.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

test('a read fails when its file is truncated meanwhile', async () => {
  const file = join(temporaryDirectory(), 'list.txt')
  writeFileSync(file, Buffer.alloc(300_000))
  const bytes = bytesOfFile(file)[Symbol.asyncIterator]()
  expect((await bytes.next()).done).toBe(false)
  truncateSync(file, 200_000)
  const rest = async () => {
    while (!(await bytes.next()).done);
  }
  await expect(rest()).rejects.toThrow('it was truncated while it was read')
})
