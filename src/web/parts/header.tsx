/** The bar above all pages: the name, where one is, language and theme. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { THEMES, type Theme } from './bar.ts'
import { browserLang, type Remembered, remember, remembered } from './browser.ts'
import { Radios } from './form.tsx'
import { LANGS, type Lang } from './format.ts'

/** A choice that this browser remembers, such as one that the root element shows. */
export function useRemembered<V extends string>(
  name: Remembered,
  start: () => V,
  show: (value: V) => void = () => {},
) {
  const [value, setValue] = useState(start)
  useLayoutEffect(() => show(value), [value])
  const choose = (next: V): void => {
    setValue(next)
    remember(name, next)
  }
  return [value, choose] as const
}

const useTheme = () =>
  useRemembered<Theme>(
    'theme',
    () => THEMES.find(({ name }) => name === remembered('theme'))?.name ?? 'auto',
    theme => {
      document.documentElement.dataset.theme = theme
    },
  )

/** The language of this browser: the one chosen before, else the browser's own. */
export const useLang = () =>
  useRemembered<Lang>(
    'lang',
    () => LANGS.find(lang => lang === remembered('lang')) ?? browserLang(),
    lang => {
      document.documentElement.lang = lang
    },
  )

/** What the operator says of the service, which the HTML of the page has. */
export const saidBy = (name: string): string | undefined =>
  document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content
export const siteName = (): string => saidBy('siteName') ?? 'proxylist'

/** Where the operator is reached, and where a key is to be had; nothing of what is not set. */
export const OperatorLinks = ({ words }: { words: OperatorWords }) => (
  <>
    {([saidBy('contact'), saidBy('keyUrl')] as const).map(
      (href, i) =>
        href && (
          <a key={href} href={href}>
            {i === 0 ? words.contact : words.getKey}
          </a>
        ),
    )}
  </>
)
export const Footer = (own: Parameters<typeof OperatorLinks>[0]) => (
  <footer class="operator">
    {siteName()}
    <OperatorLinks {...own} />
  </footer>
)

export const LangSwitch = (own: { label: string; value: Lang; onChange(lang: Lang): void }) => (
  <Radios
    {...own}
    name="page-lang"
    options={LANGS.map(lang => [
      lang,
      <span lang={lang}>{lang.toUpperCase()}</span>,
      lang === 'en' ? 'English' : 'Русский',
    ])}
  />
)

type OperatorWords = { contact?: string; getKey?: string }
type HeaderProps = {
  links: readonly { href: string; text: string; isCurrent: boolean }[]
  words: { [T in Theme]: string } & { theme: string; pages: string } & OperatorWords
  /** What a page has beside its theme. */
  children?: ComponentChildren
}

export function Header({ links, words, children }: HeaderProps) {
  const [theme, setTheme] = useTheme()
  return (
    <header class="top">
      <a class="brand" href="/">
        <span>{siteName()}</span>
      </a>
      <nav aria-label={words.pages}>
        {links.map(({ href, text, isCurrent }) => (
          <a key={text} href={href} aria-current={isCurrent ? 'page' : undefined}>
            {text}
          </a>
        ))}
      </nav>
      <p class="operator">
        <OperatorLinks words={words} />
      </p>
      <div class="preferences">
        {children}
        <Radios
          label={words.theme}
          name="theme"
          value={theme}
          onChange={setTheme}
          options={THEMES.map(({ name, icon, half }) => [
            name,
            <>
              <svg viewBox="0 0 16 16" aria-hidden="true">
                <path d={icon} />
                <path class="full" d={half} />
              </svg>
              <span class="hidden">{words[name]}</span>
            </>,
            words[name],
          ])}
        />
      </div>
    </header>
  )
}
