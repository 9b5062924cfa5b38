/** Command lines that are wrong in themselves, and what the one line on stderr must say. */

/** A name the command line does not have, and the one it should be. */
export const HINTS: readonly (readonly [line: string, unknown: string, hint: string])[] = [
  ['lst', 'lst', 'list'],
  ['improt a.txt', 'improt', 'import'],
  ['sreve', 'sreve', 'serve'],
  ['versoin', 'versoin', 'version'],
  ['key add', 'key', 'keys'],
  ['keys ad', 'ad', 'add'],
  ['keys revok x', 'revok', 'revoke'],
  ['consol', 'consol', 'console'],
  ['plans lits', 'lits', 'list'],
  ['plans remov x', 'remov', 'remove'],
  ['serve --lsten 127.0.0.1:0', '--lsten', '--listen'],
  ['serve --smaple', '--smaple', '--sample'],
  ['import a.txt --tpye http', '--tpye', '--type'],
  ['import a.txt --repalce', '--repalce', '--replace'],
  ['list --dta x', '--dta', '--data'],
  ['keys add --exipres 30d', '--exipres', '--expires'],
  ['plans set x --dayly 5', '--dayly', '--daily'],
  ['version --jsno', '--jsno', '--json'],
  ['--verison', '--verison', '--version'],
]

/** Other wrong usage: the line and what is said of it. */
export const MISTAKES: readonly (readonly [args: readonly string[], says: RegExp])[] = [
  [['frobnicate'], /unknown command 'frobnicate'/],
  [['serve', '--frobnicate'], /unknown option '--frobnicate'/],
  [['-x'], /unknown option '-x'/],
  [['serve', 'extra'], /too many arguments.*'?serve'?/],
  [['version', 'extra'], /too many arguments/],
  [
    ['list', 'key=k-secret', 'extra'],
    /^proxylist: too many arguments for 'list': it takes 1, not 2\n$/,
  ],
  [['keys', 'list', 'extra'], /too many arguments/],
  [['keys', 'revoke', 'a', 'b'], /too many arguments/],
  [['plans', 'set', 'a', 'b'], /too many arguments/],
  [['import'], /missing.*argument.*file/],
  [['import', 'a.txt', '--map', 'a=contry'], /no field is called 'contry'; did you mean 'country'/],
  [['import', 'a.txt', '--map', 'a=x'], /no field is called 'x'; the fields are ip, port, /],
  [['keys', 'revoke'], /missing.*argument.*id/],
  [['plans', 'set'], /missing.*argument.*name/],
  [['plans', 'remove'], /missing.*argument.*name/],
  [['list', '--data'], /--data .*missing/],
  [['keys', 'add', '--plan'], /--plan .*missing/],
]

/**
 * Values that options refuse, by command: the line says the option and what it accepts. All that each option
 * refuses is in `settings.test.ts`; instants that must lie in the future are refused by a rule.
 */
export const BAD_VALUES: readonly (readonly [line: string, option: string, value: string])[] = [
  ['import a.txt', '--type', 'ftp'],
  ['import a.txt', '--type', ''],
  ['import a.txt', '--provider-service', 'google'],
  ['import a.txt', '--database-timeout', '0s'],
  ['keys add', '--expires', '0d'],
  ['keys add', '--expires', '2026-11-20T12:00:00Z'],
  ['keys add', '--expires', '2020-01-01'],
  ['keys add', '--expires', '9999w'],
  ['keys add', '--key', 'temp_0123456789'],
  ['keys add', '--key', ''],
  ['keys temp', '--ttl', '0h'],
  ['keys list', '--database', 'mysql://10.0.0.1/x'],
  ['plans set small', '--burst', '5/1500ms'],
  ['serve', '--listen', 'nowhere'],
  ['serve', '--retain', '0s'],
  ['fetch', '--feeds', ''],
  ['console', '--admin-listen', 'unix:'],
]
