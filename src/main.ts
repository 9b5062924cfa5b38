#!/usr/bin/env bun
/** From the arguments to a command to the exit code: 0 done, 1 failed, 2 wrong usage. */
// First. Biome never moves an import across one that is only for its side effects.
import './bootstrap.ts'

import { run } from './cli/program.ts'
import { processEnvironment, testClockFile } from './config/environment.ts'
import { fileClock, systemClock } from './lib/clock.ts'

const clockFile = testClockFile()
const clock = clockFile === undefined ? systemClock : fileClock(clockFile)
process.exit(await run(process.argv.slice(2), processEnvironment(), clock))
