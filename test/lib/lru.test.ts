/**
 * Holds the bounded map: what it keeps and what it forgets, by count and by weight, who is told,
 * and, against a model, that it is never over its bound and never gives another key's value.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createLru } from '../../src/lib/lru.ts'

/** As in the source: an entry used again within so many uses keeps its place. */
const RECENT_USES = 1000

type Weighed = { name: string; weight: number }
const weighed = (name: string, weight: number): Weighed => ({ name, weight })

/** A map of weighed values under their names, and the names that were dropped, in order. */
function weighing(weightMax: number) {
  const dropped: string[] = []
  const lru = createLru<string, Weighed>(weightMax, {
    weightOf: ({ weight }) => weight,
    dropped: ({ name }) => void dropped.push(name),
  })
  return {
    ...lru,
    dropped,
    put: (name: string, weight: number) => lru.set(name, weighed(name, weight)),
    /** Which of these it holds; asking is a use. */
    held: (names: string) => [...names].filter(name => lru.get(name) !== undefined).join(''),
  }
}

/** A map of `max` letters that holds `names`, set in their order. */
function counting(max: number, names: string) {
  const lru = createLru<string, string>(max)
  for (const name of names) lru.set(name, name)
  const held = (asked: string) => [...asked].filter(name => lru.get(name) === name).join('')
  return { ...lru, held }
}

function use(lru: { get(key: string): unknown }, key: string, times: number): void {
  for (let i = 0; i < times; i++) lru.get(key)
}

describe('by count', () => {
  const CASES: readonly (readonly [max: number, set: string, held: string])[] = [
    [3, '', ''],
    [3, 'a', 'a'],
    [3, 'abc', 'abc'],
    [3, 'abcd', 'bcd'],
    [3, 'abcdefg', 'efg'],
    [3, 'abcad', 'cad'],
    [1, 'ab', 'b'],
    [0, 'a', ''],
  ]
  test.each(CASES)('of %p, set one after the other: %p leaves %p', (max, set, held) => {
    const { held: heldOf } = counting(max, set)
    expect(heldOf([...new Set(set)].sort().join(''))).toBe([...held].sort().join(''))
  })

  test('a key set again has the new value, and is the latest', () => {
    const lru = createLru<string, number>(2)
    lru.set('a', 1)
    lru.set('b', 2)
    lru.set('a', 3)
    lru.set('c', 4)
    expect([lru.get('a'), lru.get('b'), lru.get('c')]).toEqual([3, undefined, 4])
  })

  test('keys are told apart as a Map does', () => {
    const lru = createLru<unknown, string>(9)
    const keys = [1, '1', null, undefined, Number.NaN, '', {}]
    for (const [i, key] of keys.entries()) lru.set(key, String(i))
    expect(keys.map(key => lru.get(key))).toEqual(keys.map((_, i) => String(i)))
    expect(lru.get({})).toBeUndefined()
  })
})

describe('the least recently used goes first', () => {
  test('an entry used after a while is the latest', () => {
    const lru = counting(3, 'abc')
    use(lru, 'c', RECENT_USES)
    use(lru, 'a', 1)
    lru.set('d', 'd')
    expect(lru.held('abcd')).toBe('acd')
  })

  test.each([
    [1, 'b'],
    [RECENT_USES, 'b'],
    [RECENT_USES + 1, 'a'],
  ])('used %p times since it was set: %p stays', (times, stays) => {
    const lru = counting(2, 'ab')
    use(lru, 'a', times)
    lru.set('c', 'c')
    expect(lru.held('abc')).toBe(`${stays}c`)
  })

  test('what was moved keeps its new place, until it is used later again', () => {
    const lru = counting(3, 'abc')
    use(lru, 'a', RECENT_USES + 1) // b, c, a
    use(lru, 'b', 1) // c, a, b
    use(lru, 'a', RECENT_USES - 1) // too soon to move
    lru.set('d', 'd')
    lru.set('e', 'e')
    expect(lru.held('abcde')).toBe('bde')
  })

  test('setting a key again counts from there', () => {
    const lru = counting(2, 'ab')
    use(lru, 'b', RECENT_USES)
    lru.set('a', 'a')
    lru.set('b', 'b') // a, b
    use(lru, 'a', RECENT_USES)
    lru.set('c', 'c')
    expect(lru.held('abc')).toBe('bc')
  })

  test('asking for what is not there is no use', () => {
    const lru = counting(2, 'ab')
    use(lru, 'nobody', RECENT_USES * 2)
    use(lru, 'a', 1)
    lru.set('c', 'c')
    expect(lru.held('abc')).toBe('bc')
  })
})

describe('by weight', () => {
  test('as many of the oldest go as are needed, no more', () => {
    const lru = weighing(10)
    for (const name of 'abcde') lru.put(name, 2)
    expect(lru.dropped).toEqual([])
    lru.put('f', 5)
    expect(lru.dropped).toEqual(['a', 'b', 'c'])
    expect(lru.held('abcdef')).toBe('def')
    lru.put('g', 1)
    expect(lru.held('defg')).toBe('defg')
  })

  test.each([
    [9, 'd'],
    [10, 'd'],
    [11, 'abc'],
  ])('of at most 10: one that weighs %p leaves %p', (weight, held) => {
    const lru = weighing(10)
    for (const name of 'abc') lru.put(name, 3)
    lru.put('d', weight)
    expect(lru.held('abcd')).toBe(held)
    expect(lru.dropped.join('')).toBe(held === 'd' ? 'abc' : '')
  })

  test('a value that does not fit takes the old one of its key away', () => {
    const lru = weighing(10)
    lru.put('a', 3)
    lru.put('b', 3)
    lru.set('a', weighed('too heavy', 11))
    expect(lru.dropped).toEqual(['a'])
    expect(lru.held('ab')).toBe('b')
  })

  test('what goes gives its weight back', () => {
    const lru = weighing(10)
    lru.put('a', 6)
    lru.put('a', 4)
    lru.put('b', 6)
    expect(lru.held('ab')).toBe('ab')
    lru.delete('a')
    lru.put('c', 4)
    expect(lru.held('bc')).toBe('bc')
    lru.clear()
    lru.put('d', 10)
    expect(lru.held('bcd')).toBe('d')
  })

  test('nothing fits under a bound of 0, save what weighs nothing', () => {
    const lru = weighing(0)
    lru.put('a', 1)
    lru.put('b', 0)
    expect(lru.held('ab')).toBe('b')
  })
})

describe('who goes is told, once', () => {
  test('when it is replaced, deleted, pushed out or cleared', () => {
    const lru = weighing(2)
    lru.put('a', 1)
    lru.put('a', 1)
    expect(lru.dropped.splice(0)).toEqual(['a'])
    lru.put('b', 1)
    lru.put('c', 1)
    expect(lru.dropped.splice(0)).toEqual(['a'])
    lru.delete('b')
    lru.delete('b')
    lru.delete('nobody')
    expect(lru.dropped.splice(0)).toEqual(['b'])
    lru.put('d', 1)
    lru.clear()
    expect(lru.dropped.splice(0)).toEqual(['c', 'd'])
    lru.clear()
    expect(lru.dropped).toEqual([])
    expect(lru.held('abcd')).toBe('')
  })

  test('not when it is used', () => {
    const lru = weighing(2)
    lru.put('a', 1)
    lru.put('b', 1)
    use(lru, 'a', RECENT_USES + 1)
    expect(lru.dropped).toEqual([])
    lru.put('c', 1)
    expect(lru.dropped).toEqual(['b'])
  })
})

const WEIGHT_MAX = 12
type Action =
  | { kind: 'get' | 'delete'; key: string; times: number }
  | { kind: 'set'; key: string; weight: number }
  | { kind: 'clear' }

const key = fc.constantFrom(...'abcdefgh')
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('set'), key, weight: fc.nat(15) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('get'),
      key,
      times: fc.constantFrom(1, 2, RECENT_USES, RECENT_USES + 1),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('delete'), key, times: fc.constant(1) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear') }) },
)

/** What should be held, in order of use, worked out naively; `dropped` collects what goes. */
function createModel(dropped: (value: Weighed) => void) {
  type Entry = { key: string; value: Weighed; usedAt: number }
  let entries: Entry[] = []
  let uses = 0
  const total = () => entries.reduce((sum, { value }) => sum + value.weight, 0)
  const take = (key: string): Entry | undefined => {
    const found = entries.find(entry => entry.key === key)
    entries = entries.filter(entry => entry !== found)
    return found
  }
  const remove = (key: string): void => {
    const found = take(key)
    if (found) dropped(found.value)
  }
  return {
    total,
    get(key: string): Weighed | undefined {
      const found = entries.find(entry => entry.key === key)
      if (found === undefined) return undefined
      uses += 1
      if (uses - found.usedAt > RECENT_USES) {
        take(key)
        entries.push({ ...found, usedAt: uses })
      }
      return found.value
    },
    set(key: string, value: Weighed): void {
      remove(key)
      if (value.weight > WEIGHT_MAX) return
      while (total() + value.weight > WEIGHT_MAX) remove(entries[0]?.key ?? '')
      entries.push({ key, value, usedAt: uses })
    },
    delete: remove,
    clear(): void {
      for (const { value } of entries.splice(0)) dropped(value)
    },
  }
}

/** Does the same to the map and its model; they must agree, and keep the bound, at every step. */
function follow(actions: readonly Action[]): void {
  const kept = new Set<Weighed>()
  const drops: Weighed[] = []
  const lru = createLru<string, Weighed>(WEIGHT_MAX, {
    weightOf: ({ weight }) => weight,
    dropped: value => {
      expect(kept.delete(value)).toBe(true) // told once, and only of what was kept
      drops.push(value)
    },
  })
  const modelDrops: Weighed[] = []
  const model = createModel(value => void modelDrops.push(value))
  for (const action of actions) {
    if (action.kind === 'set') {
      const value = weighed(action.key, action.weight)
      if (value.weight <= WEIGHT_MAX) kept.add(value)
      lru.set(action.key, value)
      model.set(action.key, value)
    } else if (action.kind === 'get') {
      for (let i = 0; i < action.times; i++) {
        const found = lru.get(action.key)
        expect(found).toBe(model.get(action.key))
        expect(found === undefined || found.name === action.key).toBe(true)
      }
    } else if (action.kind === 'delete') {
      lru.delete(action.key)
      model.delete(action.key)
    } else {
      lru.clear()
      model.clear()
    }
    const weight = [...kept].reduce((sum, value) => sum + value.weight, 0)
    expect(weight).toBe(model.total())
    expect(weight).toBeLessThanOrEqual(WEIGHT_MAX)
    expect(drops).toEqual(modelDrops)
  }
}

test('whatever is done, it holds what the model holds and is never over its bound', () => {
  fc.assert(fc.property(fc.array(action, { maxLength: 40 }), follow), { numRuns: 300 })
})
