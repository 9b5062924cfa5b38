#!/usr/bin/env bun
/** Runs the command that the arguments name. Exit status: 0 success, 1 failure, 2 wrong usage. */
// Must stay first. Biome never moves an import across one that is only for its side effects.
import './bootstrap.ts'

import { run } from './cli/program.ts'
import { processEnvironment, testClockFile } from './config/environment.ts'
import { fileClock, systemClock } from './lib/clock.ts'

const clockFile = testClockFile()
const clock = clockFile === undefined ? systemClock : fileClock(clockFile)
process.exit(await run(process.argv.slice(2), processEnvironment(), clock))
