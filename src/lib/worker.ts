/** Owns starting worker threads by the path of their source file. Knows nothing of what they do. */
import { join } from 'node:path'

/** The folder `src/`, or in the binary, where this module is part of one file, its equivalent. */
const SOURCE_ROOT = import.meta.dir.endsWith('/lib') ? join(import.meta.dir, '..') : import.meta.dir

/** Starts the worker of `path`, relative to `src/`. The build must name it as an entry point. */
export const startWorker = (path: string): Worker => new Worker(join(SOURCE_ROOT, path))
