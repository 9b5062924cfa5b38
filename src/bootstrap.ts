/**
 * What must happen before any other module of the program is evaluated. `main.ts` imports
 * this file first. It may import only modules that do not depend on what it does.
 */
import { setDefaultNodeEnv, steeringVariable } from './config/environment.ts'
import { IS_COMPILED } from './config/version.ts'

// The source may be debugged; the binary runs only what was built into it.
const steering = IS_COMPILED ? steeringVariable() : undefined
if (steering !== undefined) {
  const advice = `start it without: env -u ${steering} proxylist …`
  process.stderr.write(`proxylist: ${steering} would change the runtime inside; ${advice}\n`)
  process.exit(2)
}

setDefaultNodeEnv()

// Files and sockets that the program creates are accessible to their owner only.
process.umask(0o077)
