/**
 * proxy-verifier, which checks one proxy with its type known, and its anonymity: one request through it, as ours is.
 * Reads {testUrl, addresses, count, at} as JSON from its argument, and prints the CPU time of a check in microseconds.
 */
import verifier from 'proxy-verifier'

const { testUrl, addresses, count, at } = JSON.parse(process.argv[2])
let begun = 0
const found = {}

const checked = ({ ip, port }) =>
  new Promise(resolve => {
    const proxy = { ipAddress: ip, port, protocol: 'http' }
    verifier.testAnonymityLevel(proxy, { testUrl, myIpAddress: '127.0.0.1' }, (error, level) =>
      resolve(error ? 'dead' : level),
    )
  })

async function checkOn() {
  while (begun < count) {
    const address = addresses[begun++ % addresses.length]
    const word = await checked(address)
    found[word] = (found[word] ?? 0) + 1
  }
}

const cpu = process.cpuUsage()
await Promise.all(Array.from({ length: at }, checkOn))
const used = process.cpuUsage(cpu)
process.stdout.write(`${JSON.stringify({ cpuUs: (used.user + used.system) / count, found })}\n`)
process.exit(0)
