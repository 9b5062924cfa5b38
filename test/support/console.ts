/** Owns the console as tests open it: a server with an admin listener, and its URL with a token. */
import { launchServer } from './launch.ts'
import { program, proxylist } from './program.ts'

/** Starts `serve` with an admin listener, and makes a token with `proxylist console`. */
export async function startConsole(dir: string, more: readonly string[] = []) {
  const child = await launchServer([
    ...[...program(), 'serve', '--data', dir],
    ...['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', ...more],
  ])
  const line = await child.says(/admin listening on \S+\n/)
  const admin = line.trim().replace('admin listening on ', '')
  /** A new token; the former one ends. Returns the URL that opens the console. */
  const signIn = async (): Promise<string> => {
    const listen = ['--admin-listen', admin.replace('http://', '')]
    return (await proxylist(['console', '--data', dir, ...listen])).stdout.trim()
  }
  const api = `http://127.0.0.1:${child.port}/api`
  return { ...child, admin, api, signIn, url: await signIn() }
}
