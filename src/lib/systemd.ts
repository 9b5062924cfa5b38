/** Notifies the service manager (sd_notify(3)), by libc: Bun cannot send datagrams on unix sockets. */
import { messageOf } from './errors.ts'
import { openLibc } from './libc.ts'

/** `socket` is a path or `@name`. The manager restarts the process after `watchdogMs` without a message; `null`: never. */
export type Manager = { socket: string; watchdogMs: number | null }

type Notifier = {
  /** Reports that the process is ready. Notifies the watchdog twice per `watchdogMs` from now on. */
  ready(status: string): void
  stopping(status: string): void
  /** Reports that another process is now the main process of the service. */
  isNow(pid: number): void
  close(): void
}

const AF_UNIX = 1
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0x80000
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
/** Size of `sun_path` in Linux's `sockaddr_un` (unix(7)), in bytes. */
const NAME_BYTES_MAX = 108

/** A `sockaddr_un`. An abstract name begins with a zero byte, a path ends with one. */
function addressOf(socket: string): Uint8Array {
  const isAbstract = socket.startsWith('@')
  if (!isAbstract && !socket.startsWith('/')) throw new Error('it is not a unix socket')
  const name = Buffer.from(isAbstract ? `\0${socket.slice(1)}` : `${socket}\0`)
  if (name.length > NAME_BYTES_MAX) throw new Error('its name is too long')
  const address = Buffer.alloc(2 + name.length)
  new Uint16Array(address.buffer, address.byteOffset, 1)[0] = AF_UNIX // in the machine's byte order
  name.copy(address, 2)
  return address
}

/** Opens a datagram socket. `send` throws when the manager does not accept a message. */
async function openSocket(socket: string) {
  const to = addressOf(socket)
  const symbols = await openLibc({
    socket: { args: ['int', 'int', 'int'], returns: 'int' },
    sendto: { args: ['int', 'ptr', 'u64', 'int', 'ptr', 'u32'], returns: 'i64' },
    close: { args: ['int'], returns: 'int' },
  })
  const fd = symbols.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
  if (fd < 0) throw new Error('no socket could be created')
  return {
    send(message: string): void {
      const bytes = Buffer.from(message)
      const flags = MSG_DONTWAIT | MSG_NOSIGNAL
      const sent = Number(symbols.sendto(fd, bytes, bytes.length, flags, to, to.length))
      if (sent !== bytes.length) throw new Error('a message was not accepted')
    },
    close: (): void => void symbols.close(fd),
  }
}

/** A notifier for `manager`; without a manager it does nothing. Calls `say` at the first failure. */
export async function createNotifier(
  manager: Manager | null,
  say: (sentence: string) => void,
): Promise<Notifier> {
  if (manager === null) return { ready() {}, stopping() {}, isNow() {}, close() {} }
  let hasFailed = false
  const failed = (error: unknown): void => {
    const reason = messageOf(error)
    if (!hasFailed) say(`cannot notify the service manager at NOTIFY_SOCKET: ${reason}`)
    hasFailed = true
  }
  const socket = await openSocket(manager.socket).catch(failed)
  const notify = (...lines: string[]): void => {
    try {
      socket?.send(lines.join('\n'))
    } catch (error) {
      failed(error)
    }
  }
  let watchdog: Timer | undefined
  return {
    ready(status) {
      notify('READY=1', `STATUS=${status}`)
      const { watchdogMs } = manager
      if (watchdogMs !== null) watchdog = setInterval(() => notify('WATCHDOG=1'), watchdogMs / 2)
    },
    stopping: status => notify('STOPPING=1', `STATUS=${status}`),
    isNow: pid => notify(`MAINPID=${pid}`),
    close() {
      clearInterval(watchdog)
      socket?.close()
    },
  }
}
