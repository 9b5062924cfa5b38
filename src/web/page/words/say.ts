/** Owns speaking: the sentences of a language together with its numbers and names. */
import { createSpeech, type Lang, type Speech } from '../../shared/speech.ts'
import { en, type Words } from './en.ts'
import { ru } from './ru.ts'

export const WORDS: { readonly [L in Lang]: Words } = { en, ru }

/** The words whose value is one sentence, not one for each plural category. */
type Sentence = { [N in keyof Words]: Words[N] extends string ? N : never }[keyof Words]

export type Say = Speech & {
  words: Words
  /** A word for a name that came from the service; the name itself where there is none. */
  named(prefix: 'limit_' | 'hint_' | 'state_' | 'sort_', name: string): string | null
}

export function createSay(lang: Lang): Say {
  const words = WORDS[lang]
  const isSentence = (name: string): name is Sentence => Object.hasOwn(words, name)
  return {
    ...createSpeech(lang),
    words,
    named(prefix, name) {
      const id = prefix + name
      return isSentence(id) ? words[id] : null
    },
  }
}
