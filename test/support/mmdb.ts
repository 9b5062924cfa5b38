/** Making small databases in the format of MaxMind (MaxMind DB File Format 2.0) for tests. */

type MmdbValue = string | number | readonly MmdbValue[] | { readonly [key: string]: MmdbValue }

const TYPES = { string: 2, map: 7, uint32: 6, array: 11 } as const

/** The control bytes of a value: its type, and its size. */
function control(type: number, size: number): Buffer {
  const small = Math.min(size, 29)
  const bytes = type > 7 ? [small, type - 7] : [(type << 5) | small]
  if (size >= 285) throw new Error('sizes from 285 on are not needed here')
  return Buffer.from(size < 29 ? bytes : [...bytes, size - 29])
}

function encode(value: MmdbValue): Buffer {
  if (typeof value === 'string') {
    const bytes = Buffer.from(value)
    return Buffer.concat([control(TYPES.string, bytes.length), bytes])
  }
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return Buffer.concat([control(TYPES.uint32, 4), bytes])
  }
  if (Array.isArray(value)) {
    return Buffer.concat([control(TYPES.array, value.length), ...value.map(encode)])
  }
  const entries = Object.entries(value)
  const pairs = entries.flatMap(([key, item]) => [encode(key), encode(item)])
  return Buffer.concat([control(TYPES.map, entries.length), ...pairs])
}

/** The bits of a network such as `192.0.2.0/24`; in a tree of IPv6, IPv4 is under ::/96. */
function bitsOf(network: string, version: 4 | 6): number[] {
  const [address = '', length = ''] = network.split('/')
  const octets = address.includes(':')
    ? // Written in full: eight groups.
      address.split(':').flatMap(group => {
        const bits = Number.parseInt(group, 16)
        return [bits >> 8, bits & 255]
      })
    : address.split('.').map(Number)
  const bits = octets.flatMap(octet =>
    Array.from({ length: 8 }, (_, bit) => (octet >> (7 - bit)) & 1),
  )
  const prefix = version === 6 && !address.includes(':') ? Array<number>(96).fill(0) : []
  return [...prefix, ...bits.slice(0, Number(length))]
}

/** The two sides of a node. */
type Node = (Node | Buffer | null)[]

/** The node on a side of another, made if it is not there. */
function nodeAt(node: Node, side: number): Node {
  const next = node[side]
  if (Array.isArray(next)) return next
  const made: Node = [null, null]
  node[side] = made
  return made
}

/** Puts a value into the tree. */
function put(root: Node, bits: readonly number[], value: Buffer): void {
  let node = root
  for (const side of bits.slice(0, -1)) node = nodeAt(node, side)
  node[bits.at(-1) ?? 0] = value
}

function nodesOf(root: Node): Node[] {
  const nodes: Node[] = [root]
  for (const node of nodes) for (const next of node) if (Array.isArray(next)) nodes.push(next)
  return nodes
}

/** A database of this type with a record for each network. */
export function mmdb(
  networks: { readonly [network: string]: MmdbValue },
  { type = 'GeoLite2-City', version = 6 }: { type?: string; version?: 4 | 6 } = {},
): Buffer {
  const root: Node = [null, null]
  for (const [network, value] of Object.entries(networks)) {
    put(root, bitsOf(network, version), encode(value))
  }
  const nodes = nodesOf(root)
  const positions = new Map(nodes.map((node, i) => [node, i]))
  const data: Buffer[] = []
  let dataBytes = 0
  const tree = Buffer.alloc(nodes.length * 6)
  nodes.forEach((node, i) => {
    node.forEach((next, side) => {
      let record = nodes.length // nothing is known
      if (Array.isArray(next)) record = positions.get(next) ?? 0
      else if (next !== null) {
        record = nodes.length + 16 + dataBytes
        data.push(next)
        dataBytes += next.length
      }
      tree.writeUIntBE(record, i * 6 + side * 3, 3)
    })
  })
  const metadata = {
    ...{ node_count: nodes.length, record_size: 24, ip_version: version, database_type: type },
    languages: ['en', 'ru'],
    ...{ binary_format_major_version: 2, binary_format_minor_version: 0, build_epoch: 1 },
    description: { en: 'made by a test' },
  }
  const marker = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
  return Buffer.concat([tree, Buffer.alloc(16), ...data, marker, encode(metadata)])
}

/** A record of a City database. */
export const cityRecord = (country: string, en: string, ru?: string): MmdbValue => ({
  country: { iso_code: country, names: { en: country } },
  ...(en !== '' && { city: { names: { en, ...(ru !== undefined && { ru }) } } }),
})
