/** Transcripts of `console`, and of what `serve` says of the admin listener; see `transcript.ts`. */
import type { Transcript } from '../support/transcript.ts'

const DIRECTORY = { 'data/.keep': '' }
/** A port that nothing listens on: discard. */
const NOWHERE = '127.0.0.1:9'
const urlAt = (origin: string): RegExp =>
  new RegExp(`^http://${origin.replaceAll('.', '\\.')}/#token=[\\w-]{43}\\n$`)
const hint = (where: string): string =>
  `no console answers there yet; start it with: proxylist serve --admin-listen ${where}\n`

export const CONSOLE: readonly Transcript[] = [
  {
    name: 'console prints the address with a new token alone on stdout, and how to start the server',
    files: DIRECTORY,
    steps: [
      {
        args: ['console', '--admin-listen', NOWHERE],
        stdout: urlAt(NOWHERE),
        stderr: hint(NOWHERE),
      },
    ],
  },
  {
    name: 'console makes a new token each time and says that the former one stops working',
    files: DIRECTORY,
    steps: [
      { args: ['console', '--admin-listen', NOWHERE], stdout: /./, stderr: hint(NOWHERE) },
      {
        args: ['console', '--admin-listen', NOWHERE],
        stdout: urlAt(NOWHERE),
        stderr: `the former token is not valid any more\n${hint(NOWHERE)}`,
      },
    ],
  },
  {
    name: 'console says how to reach a unix socket through ssh',
    files: DIRECTORY,
    steps: [
      {
        args: 'console --admin-listen unix:/run/none/admin.sock',
        stdout: urlAt('127.0.0.1:8081'),
        stderr: `${hint('unix:/run/none/admin.sock')}from your own machine: ssh -N -L 8081:/run/none/admin.sock USER@HOST, then open:\n`,
      },
    ],
  },
  {
    name: 'console prints an address that a browser can open where the listener is on all of them',
    files: DIRECTORY,
    steps: [{ args: 'console --admin-listen :9', stdout: urlAt(NOWHERE), stderr: hint('[::]:9') }],
  },
  {
    name: 'console makes no data directory',
    steps: [
      { args: 'console', exitCode: 1, stderr: /^proxylist: there is no data directory \.\/data; / },
    ],
  },
  {
    name: 'console wants the port that serve has printed',
    files: DIRECTORY,
    steps: [
      {
        args: 'console --admin-listen 127.0.0.1:0',
        exitCode: 2,
        stderr: 'proxylist: --admin-listen must name the port that serve has printed, not 0\n',
      },
    ],
  },
  {
    name: 'serve refuses the same address for both listeners',
    steps: ['127.0.0.1:8080', 'unix:a.sock'].map(where => ({
      args: ['serve', '--listen', where, '--admin-listen', where],
      exitCode: 2,
      stderr: 'proxylist: --admin-listen must be another address than --listen\n',
    })),
  },
  {
    name: 'serve refuses --metrics-open without --admin-listen, where it would do nothing',
    steps: [
      {
        args: 'serve --metrics-open',
        exitCode: 2,
        stderr: 'proxylist: --metrics-open is for the admin listener: give --admin-listen, too\n',
      },
    ],
  },
]
