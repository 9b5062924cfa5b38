/** Owns URLs with several hosts, as those of databases may have: `postgres://user@a:5432,b:5432/name`. */

/** The URL with each of its hosts alone, in their order; one with a single host stays as it is. */
export function eachHost(url: string): string[] {
  const [, start = '', hosts = '', rest = ''] =
    /^([^/]*\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  return hosts.includes(',') ? hosts.split(',').map(host => start + host + rest) : [url]
}
