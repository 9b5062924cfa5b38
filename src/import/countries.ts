/** Reads countries as lists write them: two or three letters, or a name in English or Russian (contract D3a). */

/** Codes in ISO 3166-1 alpha-2, each followed by its alpha-3 code. */
const CODES = `
  AD AND AE ARE AF AFG AG ATG AI AIA AL ALB AM ARM AO AGO AQ ATA AR ARG AS ASM AT AUT AU AUS AW ABW AX ALA AZ AZE
  BA BIH BB BRB BD BGD BE BEL BF BFA BG BGR BH BHR BI BDI BJ BEN BL BLM BM BMU BN BRN BO BOL BQ BES BR BRA BS BHS
  BT BTN BV BVT BW BWA BY BLR BZ BLZ CA CAN CC CCK CD COD CF CAF CG COG CH CHE CI CIV CK COK CL CHL CM CMR CN CHN
  CO COL CR CRI CU CUB CV CPV CW CUW CX CXR CY CYP CZ CZE DE DEU DJ DJI DK DNK DM DMA DO DOM DZ DZA EC ECU EE EST
  EG EGY EH ESH ER ERI ES ESP ET ETH FI FIN FJ FJI FK FLK FM FSM FO FRO FR FRA GA GAB GB GBR GD GRD GE GEO GF GUF
  GG GGY GH GHA GI GIB GL GRL GM GMB GN GIN GP GLP GQ GNQ GR GRC GS SGS GT GTM GU GUM GW GNB GY GUY HK HKG HM HMD
  HN HND HR HRV HT HTI HU HUN ID IDN IE IRL IL ISR IM IMN IN IND IO IOT IQ IRQ IR IRN IS ISL IT ITA JE JEY JM JAM
  JO JOR JP JPN KE KEN KG KGZ KH KHM KI KIR KM COM KN KNA KP PRK KR KOR KW KWT KY CYM KZ KAZ LA LAO LB LBN LC LCA
  LI LIE LK LKA LR LBR LS LSO LT LTU LU LUX LV LVA LY LBY MA MAR MC MCO MD MDA ME MNE MF MAF MG MDG MH MHL MK MKD
  ML MLI MM MMR MN MNG MO MAC MP MNP MQ MTQ MR MRT MS MSR MT MLT MU MUS MV MDV MW MWI MX MEX MY MYS MZ MOZ NA NAM
  NC NCL NE NER NF NFK NG NGA NI NIC NL NLD NO NOR NP NPL NR NRU NU NIU NZ NZL OM OMN PA PAN PE PER PF PYF PG PNG
  PH PHL PK PAK PL POL PM SPM PN PCN PR PRI PS PSE PT PRT PW PLW PY PRY QA QAT RE REU RO ROU RS SRB RU RUS RW RWA
  SA SAU SB SLB SC SYC SD SDN SE SWE SG SGP SH SHN SI SVN SJ SJM SK SVK SL SLE SM SMR SN SEN SO SOM SR SUR SS SSD
  ST STP SV SLV SX SXM SY SYR SZ SWZ TC TCA TD TCD TF ATF TG TGO TH THA TJ TJK TK TKL TL TLS TM TKM TN TUN TO TON
  TR TUR TT TTO TV TUV TW TWN TZ TZA UA UKR UG UGA UM UMI US USA UY URY UZ UZB VA VAT VC VCT VE VEN VG VGB VI VIR
  VN VNM VU VUT WF WLF WS WSM XK XKX YE YEM YT MYT ZA ZAF ZM ZMB ZW ZWE`
  .trim()
  .split(/\s+/)

/** Codes in use that ISO 3166-1 does not assign. `''` means an unknown country. */
const OTHER_CODES: { readonly [code: string]: string } = {
  ...{ UK: 'GB', EL: 'GR', ZZ: '', XX: '', EU: '', AP: '', UN: '', EZ: '' },
  ...{ A1: '', A2: '', O1: '', T1: '' },
}

/** Everyday names that are missing in CLDR, after the code of their country. */
const EVERYDAY = `AE Emirates|UAE|Объединенные Арабские Эмираты; BA Bosnia and Herzegovina; BN Brunei Darussalam;
  CD Democratic Republic of the Congo|DR Congo|Congo, The Democratic Republic of the|Congo Kinshasa;
  CG Congo|Republic of the Congo|Congo Brazzaville; CI Ivory Coast; CN People's Republic of China; CV Cabo Verde;
  CZ Czech Republic|Чешская Республика; FM Federated States of Micronesia|Micronesia; TR Turkey; TL East Timor;
  GB Great Britain|England|Scotland|Wales|Англия|Соединенное Королевство; VA Holy See|Vatican; VN Viet Nam;
  KP Korea, Democratic Peoples Republic of|КНДР; KR Korea|Republic of Korea|Южная Корея|Корея; MM Burma|Мьянма;
  LA Lao People's Democratic Republic; MK Macedonia|Македония; NL Holland|Голландия; SY Syrian Arab Republic;
  PS State of Palestine|Palestinian Territory; RU Russian Federation|Российская Федерация; SZ Swaziland|Свазиленд;
  US USA|United States of America|U.S.A.|U.S.|America|Соединенные Штаты Америки`

/** A name without case, accents, punctuation, and text in brackets. */
const folded = (name: string): string =>
  name
    .normalize('NFD')
    .replace(/\p{M}|\(.*?\)/gu, '')
    .toLowerCase()
    .replaceAll('&', 'and')
    .replace(/['’.]/g, '')
    .replace(/[^\p{L},]+/gu, ' ')
    .trim()
    .replace(/^the /, '')

const assigned = new Set(CODES.filter(code => code.length === 2))
const alpha3 = new Map(CODES.map((code, at) => [code, CODES[at - 1] ?? ''] as const))

let names: Map<string, string> | null = null

/** Codes by folded name. Computed at the first call, because most lists use codes. */
function codesByName(): Map<string, string> {
  if (names !== null) return names
  names = new Map()
  for (const style of ['long', 'short'] as const) {
    for (const language of ['en', 'ru']) {
      const display = new Intl.DisplayNames(language, { type: 'region', style, fallback: 'none' })
      for (const code of assigned) names.set(folded(display.of(code) ?? code), code)
    }
  }
  for (const entry of EVERYDAY.split(/;\s+/)) {
    for (const name of entry.slice(3).split('|')) names.set(folded(name), entry.slice(0, 2))
  }
  return names
}

/** The country of a flag such as 🇩🇪, which consists of two regional indicators; `''` without a flag. */
export function countryOfFlag(text: string): string {
  const flag = /[\u{1F1E6}-\u{1F1FF}]{2}/u.exec(text)?.[0] ?? ''
  const letter = (symbol: string): string =>
    String.fromCharCode((symbol.codePointAt(0) ?? 0) - 0x1f1e6 + 65)
  return countryOfCode([...flag].map(letter).join('')) ?? ''
}

/** The country of an assigned code of two letters; `''` if it is unknown, `null` for any other text. */
export function countryOfCode(text: string): string | null {
  if (!/^[A-Za-z\d]{2}$/.test(text)) return null // `ß` is SS in upper case
  const code = text.toUpperCase()
  return assigned.has(code) ? code : (OTHER_CODES[code] ?? null)
}

/** The country of a name; `null` if no country has it. */
export function countryOfName(text: string): string | null {
  if (text.length > 100 || text.length < 2) return null
  const name = folded(text)
  const parts = name.split(',').map(part => part.trim())
  const known = codesByName()
  const whole = known.get(name) ?? known.get(name.replaceAll(',', ''))
  // The last part of `Berlin, Germany` is a country, and the first of `Korea, Republic of`.
  return whole ?? known.get(parts.at(-1) ?? '') ?? known.get(parts[0] ?? '') ?? null
}

/** An upper-case code of two letters; `''` if it is unknown, `null` if the text is not understood. */
export function readCountry(text: string): string | null {
  const known = countryOfCode(text)
  if (known !== null) return known
  if (/^[A-Za-z]{2}$/.test(text)) return text.toUpperCase()
  const long = /^[A-Za-z]{3}$/.test(text) ? alpha3.get(text.toUpperCase()) : undefined
  return long ?? (countryOfFlag(text) || countryOfName(text))
}
