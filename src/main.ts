#!/usr/bin/env bun
/**
 * From the arguments to a command to the exit status: 0 done, 1 failed, 2 wrong usage.
 * The only file that ends the process.
 */
// First: it sets what Elysia reads when it is loaded.
import './config/settings.ts'
import { run } from './cli/program.ts'
import { processEnvironment, steeringVariable, testClockFile } from './config/settings.ts'
import { IS_COMPILED } from './config/version.ts'
import { fileClock, systemClock } from './lib/clock.ts'

// Who runs the source may debug it; the binary is what it was built to be.
const steering = IS_COMPILED ? steeringVariable() : undefined
if (steering !== undefined) {
  const advice = `start it without: env -u ${steering} proxylist …`
  process.stderr.write(`proxylist: ${steering} would steer the runtime inside; ${advice}\n`)
  process.exit(2)
}

// The databases are nobody else's business.
process.umask(0o077)

const clockFile = testClockFile()
const clock = clockFile === undefined ? systemClock : fileClock(clockFile)
process.exit(await run(process.argv.slice(2), processEnvironment(), clock))
