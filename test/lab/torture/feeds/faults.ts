/** The faults of feeds as a server on 127.0.0.1 commits them, at their full size. */
import { Readable, type Transform } from 'node:stream'
import { createGzip, createZstdCompress, gzipSync } from 'node:zlib'
import { type Answerer, reply } from '../../../support/feed-server.ts'

/** A billion bytes and some more than a feed may have. */
const BOMB_BYTES = 2 ** 30 + 2 ** 20

/** A bomb: many bytes of one kind, compressed to few. */
async function bomb(compress: Transform, byte: string): Promise<Buffer> {
  const piece = Buffer.alloc(2 ** 20, byte)
  const pieces = Array.from({ length: BOMB_BYTES / piece.length }, () => piece)
  const compressed: Buffer[] = []
  for await (const chunk of Readable.from(pieces).pipe(compress)) compressed.push(chunk)
  return Buffer.concat(compressed)
}

const head = (socket: Parameters<Answerer>[1], fields = ''): void =>
  void socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\n`)

const endless: Answerer = (_, socket) => {
  head(socket)
  const more = Buffer.from('# more\n'.repeat(20_000))
  const write = (): void => {
    while (!socket.destroyed && socket.write(more)) {}
  }
  socket.on('drain', write)
  write()
}

/** Each fault by its path; `lines` are rows of TXT. Those that hang end after a minute. */
export const faultsOf = async (lines: string): Promise<{ [path: string]: Answerer }> => ({
  '/answers-500': reply(500),
  '/asks-to-wait': reply(429, { 'Retry-After': '3' }),
  '/empty': reply(200),
  '/empty-list': reply(200, {}, '[]'),
  '/web-page': reply(200, {}, '<!doctype html>'),
  '/circle': reply(302, { Location: '/circle' }),
  '/lies-about-length': (_, socket) => {
    head(socket, 'Content-Length: 1000000\r\n')
    socket.end(lines)
  },
  '/breaks-off': (_, socket) => {
    head(socket, 'Transfer-Encoding: chunked\r\n')
    socket.end(`ffff\r\n${lines}`)
  },
  '/gzip-breaks-off': reply(200, { 'Content-Encoding': 'gzip' }, gzipSync(lines).subarray(0, 500)),
  '/zeros': reply(200, { 'Content-Encoding': 'gzip' }, await bomb(createGzip(), '\0')),
  '/empty-lines': reply(
    200,
    { 'Content-Encoding': 'zstd' },
    await bomb(createZstdCompress(), '\n'),
  ),
  '/endless': endless,
  '/slow': (_, socket) => head(socket),
  '/silent': () => {},
})
