/** What the environment says about the service manager, and which variables steer the runtime. */
import { describe, expect, test } from 'bun:test'
import { type Environment, serviceManager, steeringVariable } from '../../src/config/environment.ts'

describe('the service manager', () => {
  const socket = '/run/systemd/notify'
  test.each<[Environment, number | null]>([
    [{}, null],
    [{ WATCHDOG_USEC: '30000000' }, 30_000],
    [{ WATCHDOG_USEC: '30000000', WATCHDOG_PID: String(process.pid) }, 30_000],
    [{ WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' }, null],
    [{ WATCHDOG_USEC: '0' }, null],
    [{ WATCHDOG_USEC: '-5' }, null],
    [{ WATCHDOG_USEC: '9'.repeat(19) }, null], // a timer that long would fire at once, again and again
  ])('in %j wants a watchdog signal every %p ms', (env, watchdogMs) => {
    expect(serviceManager({ NOTIFY_SOCKET: socket, ...env })).toEqual({ socket, watchdogMs })
  })

  test('is absent without a socket', () => {
    for (const env of [{}, { NOTIFY_SOCKET: '', WATCHDOG_USEC: '1000' }]) {
      expect(serviceManager(env)).toBeNull()
    }
  })
})

describe('a variable that changes the runtime', () => {
  test.each([
    'BUN_OPTIONS',
    'BUN_BE_BUN',
    'BUN_INSPECT',
    'BUN_INSPECT_CONNECT_TO',
    'BUN_INSPECT_NOTIFY',
    'BUN_CONFIG_VERBOSE_FETCH',
    'BUN_FEATURE_FLAG_DISABLE_IPV6',
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
