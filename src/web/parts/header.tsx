/** The bar above all pages: the name, where one is, language and theme. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { type Remembered, remember, remembered } from './browser.ts'
import { Radios } from './form.tsx'
import { LANGS, type Lang } from './speech.ts'

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

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
    () => THEMES.find(theme => theme === remembered('theme')) ?? 'auto',
    theme => {
      document.documentElement.dataset.theme = theme
    },
  )

/** The language of this browser: the one chosen before, else the browser's own. */
export const useLang = () =>
  useRemembered<Lang>(
    'lang',
    () => ((remembered('lang') ?? navigator.language).startsWith('ru') ? 'ru' : 'en'),
    lang => {
      document.documentElement.lang = lang
    },
  )

/** What the operator says of the service, which the HTML of the page has. */
const saidBy = (name: string): string | undefined =>
  document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content
export const siteName = (): string => saidBy('siteName') ?? 'proxylist'

/** Where the operator is reached, and where a key is to be had; nothing of what is not set. */
const OperatorLinks = ({ words }: { words: OperatorWords }) => (
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

const Logo = () => (
  <svg viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="9" />
    <path d="M9 10c7 0 7 6 14 6M9 22c7 0 7-6 14-6" />
    <circle cx="9" cy="10" r="2.6" />
    <circle cx="9" cy="22" r="2.6" />
    <circle cx="23" cy="16" r="3.6" />
  </svg>
)

const ICONS: { [T in Theme]: preact.JSX.Element } = {
  auto: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path class="full" d="M8 2.5a5.5 5.5 0 0 1 0 11z" />
    </>
  ),
  light: (
    <>
      <circle cx="8" cy="8" r="3" />
      <path d="M8 1v1.4M8 13.6V15M1 8h1.4M13.6 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1" />
    </>
  ),
  dark: <path d="M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z" />,
}

/** The languages of a page that has several. */
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
        <Logo />
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
          options={THEMES.map(name => [
            name,
            <>
              <svg viewBox="0 0 16 16" aria-hidden="true">
                {ICONS[name]}
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
