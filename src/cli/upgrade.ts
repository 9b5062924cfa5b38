/** Upgrades without an interruption: the server starts the program that now has its name, which takes over. */
import { spawnSuccessor } from '../config/subprocess.ts'
import { timerLater } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { MINUTE_MS } from '../lib/time.ts'

/** How long a server may take until it takes over. */
const SUCCESSOR_MS_MAX = MINUTE_MS

/** `start` starts that program, one at a time. */
export function createUpgrade(log: Log) {
  let child: ReturnType<typeof spawnSuccessor> | null = null
  return {
    start(): void {
      if (child !== null) return log.say('a server that takes over is being started')
      try {
        const started = spawnSuccessor()
        child = started
        started.unref()
        log.say('starting the server that takes over')
        const cancel = timerLater(() => started.kill('SIGTERM'), SUCCESSOR_MS_MAX)
        void started.exited.then(status => {
          cancel()
          if (child === null) return
          child = null
          log.say(
            `the server that was to take over has ended with status ${status}; this one goes on`,
          )
        })
      } catch (error) {
        log.say(
          `the server that takes over cannot be started (${reasonOf(error)}); this one goes on`,
        )
      }
    },
    /** Lets go of a server that has taken over, with `SIGKILL` to its guard; with `SIGTERM`, the guard ends it. */
    async leave(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
      const shell = child
      child = null
      shell?.kill(signal)
      await shell?.exited
    },
  }
}
