/** The build of the program. */
import { version } from '../../package.json'

declare const BUILD_COMMIT: string | undefined
declare const BUILD_SECONDS: string | undefined

export const VERSION = version
export const IS_COMPILED = typeof BUILD_COMMIT === 'string'
export const COMMIT = typeof BUILD_COMMIT === 'string' ? BUILD_COMMIT : 'source'
/** The time of that commit in Unix milliseconds; `null` when running from source. */
export const COMMITTED_MS = typeof BUILD_SECONDS === 'string' ? Number(BUILD_SECONDS) * 1000 : null
export const BUN_VERSION = Bun.version
export const SQLITE_VERSION = process.versions.sqlite ?? ''
