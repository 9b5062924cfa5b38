/** `systemd-unit`: prints the unit file that runs the service under systemd. */
import unit from '../../../data/proxylist.service' with { type: 'text' }
import { command, print } from '../command.ts'

export const systemdUnitCommand = command({
  name: 'systemd-unit',
  summary: 'print a unit file for systemd',
  settings: [],
  example: 'proxylist systemd-unit > /etc/systemd/system/proxylist.service',
  run: () => print(unit),
})
