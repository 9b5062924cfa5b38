#!/usr/bin/env bun
/**
 * From the arguments to a command to the exit status: 0 done, 1 failed, 2 wrong usage.
 * The only file that ends the process.
 */
// First: it sets what Elysia reads when it is loaded.
import './config.ts'
import { run } from './cli/program.ts'
import { processEnvironment, testClockFile } from './config.ts'
import { fileClock, systemClock } from './time.ts'

// The databases are nobody else's business.
process.umask(0o077)

const clockFile = testClockFile()
const clock = clockFile === undefined ? systemClock : fileClock(clockFile)
process.exit(await run(process.argv.slice(2), processEnvironment(), clock))
