/** Speaking: the sentences of a language together with its numbers and names. */
import { createSpeech, type Lang, type Speech } from '../../parts/speech.ts'
import type { Count } from '../model/facets.ts'
import { en, type Words } from './en.ts'
import { ru } from './ru.ts'

export const WORDS: { readonly [L in Lang]: Words } = { en, ru }

/** The words whose value is one sentence, not one for each plural category. */
type Sentence = { [N in keyof Words]: Words[N] extends string ? N : never }[keyof Words]

export type Say = Speech & {
  words: Words
  /** A count as far as it is known: `13`, `≤ 95`, and with both bounds `13–95`. */
  range(count: Count): string
  /** A count in short, with one number: `≥ 13`. */
  bound(count: Count): string
  /** A word for a name that came from the service; the name itself where there is none. */
  named(prefix: 'limit_' | 'hint_' | 'state_' | 'sort_', name: string): string | null
}

export function createSay(lang: Lang): Say {
  const words = WORDS[lang]
  const speech = createSpeech(lang)
  const { number } = speech
  const known = ({ least, most }: Count): string | null => {
    if (least === most) return number(least)
    return least === 0 ? `≤ ${number(most)}` : null
  }
  const isSentence = (name: string): name is Sentence => Object.hasOwn(words, name)
  return {
    ...speech,
    words,
    range: count => known(count) ?? `${number(count.least)}–${number(count.most)}`,
    bound: count => known(count) ?? `≥ ${number(count.least)}`,
    named(prefix, name) {
      const id = prefix + name
      return isSentence(id) ? words[id] : null
    },
  }
}
