/** The command `judge`. */
import { serviceManager } from '../../config/environment.ts'
import { showListen } from '../../config/parsers.ts'
import type { Settings } from '../../config/settings.ts'
import { openCertificate } from '../../judge/certificate.ts'
import { CONNECTIONS_MAX, startJudge } from '../../judge/judge.ts'
import { openSecret } from '../../judge/secret.ts'
import { steadyClock, timerEvery } from '../../lib/clock.ts'
import { affordableDescriptors } from '../../lib/descriptors.ts'
import { CommandError, untilAborted } from '../../lib/errors.ts'
import { several } from '../../lib/plural.ts'
import { createNotifier } from '../../lib/systemd.ts'
import { command, say } from '../command.ts'

const JUDGE_SETTINGS = [
  'judgeListen',
  'judgeListenTls',
  'judgeCert',
  'judgeKey',
  'judgeSecret',
] as const
type JudgeSettings = Settings<(typeof JUDGE_SETTINGS)[number]>

/** @throws CommandError (usage) for settings that cannot work together. */
function filesOf({ judgeListenTls, judgeCert: cert, judgeKey: key }: JudgeSettings) {
  if (judgeListenTls === undefined) {
    if (cert === undefined && key === undefined) return null
    throw new CommandError('--cert and --key require --listen-tls', 2)
  }
  if (cert === undefined || key === undefined) {
    throw new CommandError('--listen-tls requires --cert FILE and --key FILE', 2)
  }
  return { listen: judgeListenTls, files: { cert, key } }
}

export const judgeCommand = command({
  name: 'judge',
  summary: 'answer the checks of a checker, on a public server',
  settings: JUDGE_SETTINGS,
  example: 'proxylist judge --listen :80 --judge-secret judge-secret',
  endsAtSignal: 'by itself',
  async run({ settings, clock, signal }) {
    const { judgeListen: listen, judgeSecret: file } = settings
    const secure = filesOf(settings)
    if (file === undefined) {
      throw new CommandError(
        '--judge-secret FILE is required: judge and check share it; it is created if it does not exist',
        2,
      )
    }
    const tls = secure && {
      listen: secure.listen,
      certificate: await openCertificate(secure.files, say),
    }
    const { keys, isNew } = await openSecret(file)
    if (isNew) say(`created a secret in ${file}: the checker needs the same file`)
    const manager = await createNotifier(serviceManager(), say)
    const judge = await startJudge({
      ...{ keys, clock: steadyClock(clock), every: timerEvery, listen, tls },
      connectionsMax: affordableDescriptors(CONNECTIONS_MAX),
    })
    const { where, whereTls } = judge
    if (tls) say(`its certificate: ${tls.certificate.shown()}`)
    say(`listening on ${showListen(where)}`)
    if (whereTls) say(`listening on ${showListen(whereTls, 'https')}`)
    manager.ready(`listening on ${showListen(where)}`)
    await untilAborted(signal)
    manager.stopping('closing connections')
    judge.stop()
    manager.close()
    const { answered, refused } = judge.counts()
    say(`stopped: ${several(answered, 'check')} answered, ${several(refused, 'request')} refused`)
  },
})
