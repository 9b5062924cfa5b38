/** What the environment says about the service manager, and which variables steer the runtime. */
import { describe, expect, test } from 'bun:test'
import { type Environment, serviceManager, steeringVariable } from '../../src/config/environment.ts'

describe('the service manager', () => {
  const socket = '/run/systemd/notify'
  const pid = String(process.pid)
  test.each([
    [{}, null],
    [{ NOTIFY_SOCKET: '', WATCHDOG_USEC: '1000' }, null],
    [{ NOTIFY_SOCKET: socket }, { socket, watchdogMs: null }],
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '30000000' },
      { socket, watchdogMs: 30_000 },
    ],
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '30000000', WATCHDOG_PID: pid },
      { socket, watchdogMs: 30_000 },
    ],
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' },
      { socket, watchdogMs: null },
    ],
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '0' },
      { socket, watchdogMs: null },
    ],
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '-5' },
      { socket, watchdogMs: null },
    ],
    // A timer that long would fire at once, again and again.
    [
      { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '9'.repeat(19) },
      { socket, watchdogMs: null },
    ],
  ])('of %j is %j', (env: Environment, manager) => {
    expect(serviceManager(env)).toEqual(manager)
  })
})

describe('a variable that steers the runtime', () => {
  test.each([
    'BUN_OPTIONS',
    'BUN_BE_BUN',
    'BUN_INSPECT',
    'BUN_INSPECT_PRELOAD',
    'BUN_JSC_functionOverrides',
    'BUN_BYTECODE_ORDER_OUT',
  ])('is %s', name => {
    expect(steeringVariable({ PATH: '/bin', [name]: 'x' })).toBe(name)
    expect(steeringVariable({ PATH: '/bin', [name]: '' })).toBeUndefined()
  })

  test.each(['BUN_INSTALL', 'BUN_INSTALL_BIN', 'BUN_TMPDIR', 'NODE_OPTIONS', 'MY_BUN_OPTIONS'])(
    'is not %s',
    name => expect(steeringVariable({ [name]: 'x' })).toBeUndefined(),
  )
})
