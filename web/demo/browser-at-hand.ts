/** Names a browser and its platform from what it says of itself. */

/** Families with their own settings; other Chromium browsers have those of Chrome. */
export type BrowserFamily = 'chrome' | 'edge' | 'firefox' | 'safari';
export type PlatformName = 'Windows' | 'macOS' | 'ChromeOS' | 'Linux' | 'Android' | 'iOS and iPadOS';

export interface BrowserAtHand {
  readonly family: BrowserFamily;
  /** Main version; undefined if the browser does not say. */
  readonly version: number | undefined;
  readonly platform: PlatformName | undefined;
}

/** In this order: Chromium browsers also say Safari, and Edge also says Chrome. */
const families: readonly (readonly [family: BrowserFamily, version: RegExp])[] = [
  ['edge', /\bEdg(?:A)?\/(\d+)/],
  ['chrome', /\b(?:Headless)?Chrome\/(\d+)/],
  ['firefox', /\bFirefox\/(\d+)/],
  ['safari', /\bVersion\/(\d+)[\d.]* .*\bSafari\//],
];

const platforms: readonly (readonly [PlatformName, RegExp])[] = [
  ['iOS and iPadOS', /\b(?:iPhone|iPad|iPod)\b/],
  ['Android', /\bAndroid\b/],
  ['ChromeOS', /\bCrOS\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac(?:intosh| OS X)\b/],
  ['Linux', /\b(?:Linux|X11)\b/],
];

/**
 * @param page.maxTouchPoints tells an iPad, which calls itself a Mac, from a Mac
 * @returns undefined for an unknown browser
 */
export function browserAtHand(page: {
  readonly userAgent: string;
  readonly maxTouchPoints: number;
}): BrowserAtHand | undefined {
  const { userAgent, maxTouchPoints } = page;
  const named = platforms.find(([, pattern]) => pattern.test(userAgent))?.[0];
  const platform = named === 'macOS' && maxTouchPoints > 1 ? 'iOS and iPadOS' : named;
  if (platform === 'iOS and iPadOS') {
    // All browsers there use the engine of Safari, whose version is that of the system.
    const version = /\bVersion\/(\d+)/.exec(userAgent)?.[1] ?? /\bOS (\d+)_/.exec(userAgent)?.[1];
    return { family: 'safari', version: version === undefined ? undefined : Number(version), platform };
  }
  for (const [family, pattern] of families) {
    const version = pattern.exec(userAgent)?.[1];
    if (version !== undefined) return { family, version: Number(version), platform };
  }
  return undefined;
}
