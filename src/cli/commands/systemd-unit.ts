/** `systemd-unit`: prints a unit file that runs the service, the judge or the checker under systemd. */
import serve from '../../../data/proxylist.service' with { type: 'text' }
import check from '../../../data/proxylist-check.service' with { type: 'text' }
import judge from '../../../data/proxylist-judge.service' with { type: 'text' }
import { CommandError } from '../../lib/errors.ts'
import { command, print } from '../command.ts'

/** By the command that a unit runs. */
const UNITS = new Map(Object.entries({ serve, judge, check }))

export const systemdUnitCommand = command({
  name: 'systemd-unit',
  summary: 'print a unit file for systemd, of serve, judge or check',
  arguments: '[command]',
  choices: () => [...UNITS.keys()],
  settings: [],
  example: 'proxylist systemd-unit > /etc/systemd/system/proxylist.service',
  run({ args: [name = 'serve'] }) {
    const unit = UNITS.get(name)
    // Where a package puts the program, its unit runs it there.
    const isPackaged = process.execPath === '/usr/bin/proxylist'
    if (unit !== undefined)
      return print(isPackaged ? unit.replaceAll('/usr/local/bin/', '/usr/bin/') : unit)
    const known = [...UNITS.keys()].join(', ')
    throw new CommandError(`there is no unit for that; there are those of ${known}`, 2)
  },
})
