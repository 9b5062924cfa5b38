/** Shares a port (SO_REUSEPORT, socket(7)) during a take-over, and gives connections to the new server. Linux only. */
import { openLibc } from '../lib/libc.ts'

const SOL_SOCKET = 1
const SO_REUSEPORT = 15
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51
/** A classic BPF program of one instruction, `ret #1`: it chooses the second socket on the port. */
const RETURN = 0x06
const SECOND = 1
/** Sizes of `sock_filter`, `sock_fprog` (on machines of 64 bits), `int` and `sockaddr_in6`, in bytes. */
const FILTER_BYTES = 8
const PROGRAM_BYTES = 16
const INT_BYTES = 4
const ADDRESS_BYTES = 28
/** The listening socket has a low descriptor, because it is opened early. */
const DESCRIPTORS_MAX = 4096

/** The listening socket of this process on a port. All our targets are little-endian. */
type PortSharing = {
  /** Allows or forbids other processes of this user to listen on the port too. @throws Error */
  share(isShared: boolean): void
  /** Sends all further connections to the newest socket on the port. @throws Error */
  giveToNewcomer(): void
}

/** @throws Error when there is no such socket, or the system does not allow it. */
export async function openPortSharing(port: number): Promise<PortSharing> {
  if (process.platform !== 'linux') throw new Error('only Linux can do it')
  const option = { args: ['int', 'int', 'int', 'ptr', 'ptr'], returns: 'int' } as const
  const libc = await openLibc({
    getsockopt: option,
    setsockopt: { ...option, args: ['int', 'int', 'int', 'ptr', 'u32'] },
    getsockname: { args: ['int', 'ptr', 'ptr'], returns: 'int' },
  })
  const { ptr } = await import('bun:ffi')

  function isListening(fd: number): boolean {
    const [value, length] = [Buffer.alloc(INT_BYTES), Buffer.from([INT_BYTES, 0, 0, 0])]
    const failed = libc.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, value, length)
    return failed === 0 && value.readInt32LE() === 1
  }

  function portOf(fd: number): number {
    const [address, length] = [Buffer.alloc(ADDRESS_BYTES), Buffer.from([ADDRESS_BYTES, 0, 0, 0])]
    return libc.getsockname(fd, address, length) === 0 ? address.readUInt16BE(2) : -1
  }

  function set(fd: number, name: number, value: Buffer): void {
    if (libc.setsockopt(fd, SOL_SOCKET, name, value, value.length) === 0) return
    throw new Error('the kernel does not allow it')
  }

  let fd = 0
  while (!(isListening(fd) && portOf(fd) === port)) {
    fd += 1
    if (fd === DESCRIPTORS_MAX) throw new Error('its socket was not found')
  }
  return {
    share: isShared => set(fd, SO_REUSEPORT, Buffer.from([isShared ? 1 : 0, 0, 0, 0])),
    giveToNewcomer() {
      const filter = Buffer.alloc(FILTER_BYTES)
      filter.writeUInt16LE(RETURN, 0)
      filter.writeUInt32LE(SECOND, 4)
      const program = Buffer.alloc(PROGRAM_BYTES)
      program.writeUInt16LE(1, 0)
      program.writeBigUInt64LE(BigInt(ptr(filter)), 8)
      set(fd, SO_ATTACH_REUSEPORT_CBPF, program)
    },
  }
}
