/** A service manager, as tests play it. */
import { dlopen } from 'bun:ffi'

const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOL_SOCKET = 1
const SO_RCVTIMEO = 20
/** Longest wait for a message. */
const RECEIVE_SECONDS_MAX = 120n

/**
 * Listens on a unix datagram socket, as a service manager does: on a path, or on the abstract name after `@`.
 * Bun has none, so libc makes it. `receive` blocks this process until the next message arrives.
 */
export function listenForDatagrams(name: string) {
  const { symbols, close } = dlopen('libc.so.6', {
    socket: { args: ['int', 'int', 'int'], returns: 'int' },
    bind: { args: ['int', 'ptr', 'u32'], returns: 'int' },
    setsockopt: { args: ['int', 'int', 'int', 'ptr', 'u32'], returns: 'int' },
    recv: { args: ['int', 'ptr', 'u64', 'int'], returns: 'i64' },
    close: { args: ['int'], returns: 'int' },
  })
  const fd = symbols.socket(AF_UNIX, SOCK_DGRAM, 0)
  const timeout = new BigInt64Array([RECEIVE_SECONDS_MAX, 0n])
  symbols.setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, timeout, 16)
  const text = name.startsWith('@') ? `\0${name.slice(1)}` : `${name}\0`
  const address = Buffer.concat([
    new Uint8Array(new Uint16Array([AF_UNIX]).buffer),
    Buffer.from(text),
  ])
  if (symbols.bind(fd, address, address.length) !== 0) throw new Error(`cannot bind ${name}`)
  const buffer = Buffer.alloc(4096)
  return {
    receive(): string {
      const length = Number(symbols.recv(fd, buffer, buffer.length, 0))
      if (length < 0) throw new Error('no message came')
      return buffer.toString('utf8', 0, length)
    },
    [Symbol.dispose](): void {
      symbols.close(fd)
      close()
    },
  }
}
