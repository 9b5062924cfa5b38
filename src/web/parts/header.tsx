/** The bar above all pages: site name, links, language. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { browserLang, remember, remembered } from './browser.ts'
import { Radios } from './form.tsx'
import { LANGS, type Lang } from './format.ts'

/** A choice that this browser remembers. */
export function useRemembered<V extends string>(name: string, start: () => V) {
  const [value, setValue] = useState(start)
  const choose = (next: V): void => {
    setValue(next)
    remember(name, next)
  }
  return [value, choose] as const
}

/** The chosen language, by default the browser's. */
export function useLang() {
  const [lang, setLang] = useRemembered<Lang>(
    'lang',
    () => LANGS.find(each => each === remembered('lang')) ?? browserLang(),
  )
  useLayoutEffect(() => {
    document.documentElement.lang = lang
  }, [lang])
  return [lang, setLang] as const
}

/** A setting of the operator, which the HTML of the page holds. */
export const operatorSetting = (name: string): string | undefined =>
  document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content
export const siteName = (): string => operatorSetting('siteName') ?? 'proxylist'

type OperatorWords = { contact?: string; getKey?: string }

/** Links to the operator and to where keys are given out, where they are set. */
export const OperatorLinks = ({ words }: { words: OperatorWords }) => (
  <>
    {([operatorSetting('contact'), operatorSetting('keyUrl')] as const).map(
      (href, i) =>
        href && (
          <a key={href} href={href}>
            {i === 0 ? words.contact : words.getKey}
          </a>
        ),
    )}
  </>
)

export const LangSwitch = (props: { label: string; value: Lang; onChange(lang: Lang): void }) => (
  <Radios
    {...props}
    name="page-lang"
    options={LANGS.map(lang => [
      lang,
      <span lang={lang}>{lang.toUpperCase()}</span>,
      lang === 'en' ? 'English' : 'Русский',
    ])}
  />
)

type HeaderProps = {
  links: readonly { href: string; text: string; isCurrent: boolean }[]
  words: { pages: string } & OperatorWords
  /** At the end of the bar. */
  children?: ComponentChildren
}

export const Header = ({ links, words, children }: HeaderProps) => (
  <header class="top">
    <a class="brand" href="/">
      <span>{siteName()}</span>
    </a>
    <nav class="row" aria-label={words.pages}>
      {links.map(({ href, text, isCurrent }) => (
        <a key={text} href={href} aria-current={isCurrent ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
    <p class="operator">
      <OperatorLinks words={words} />
    </p>
    <div class="preferences">{children}</div>
  </header>
)
