/**
 * Where browsers have WebGPU, and how each calls the settings for it. Sources: the implementation status of the WebGPU
 * working group (April 2026), and the settings of the browsers.
 */
import type { BrowserAtHand, BrowserFamily, PlatformName } from './browser-at-hand.ts';

interface Support {
  readonly platform: PlatformName;
  /** First version that has it by default; undefined where no release has. */
  readonly since: number | undefined;
  /** What else it needs, or how to get it. */
  readonly note?: string;
}

/** Text and code in turn: odd parts are code. */
export type Step = readonly string[];

export interface BrowserGuide {
  readonly family: BrowserFamily;
  readonly name: string;
  readonly support: readonly Support[];
  readonly steps: readonly Step[];
}

const chromiumSupport: readonly Support[] = [
  {
    platform: 'Windows',
    since: 113,
    note: 'x86 processors; on ARM processors it needs the flag',
  },
  { platform: 'macOS', since: 113 },
  { platform: 'ChromeOS', since: 113 },
  {
    platform: 'Android',
    since: 121,
    note: 'Android 12 and later with a Qualcomm, ARM or Intel GPU; 139 on Android 16 with an Imagination GPU',
  },
  {
    platform: 'Linux',
    since: 144,
    note: 'Intel GPUs from generation 12 on; 147 with an NVIDIA driver from 535.183.01 on; other GPUs need the flag',
  },
];

const chromiumSteps = (scheme: string, settings: string): readonly Step[] => [
  [`In Settings, ${settings}, turn on “Use graphics acceleration when available”, and relaunch the browser.`],
  [
    '',
    `${scheme}://gpu`,
    ' shows the state of WebGPU under “Graphics Feature Status”, and below it why it is off.',
  ],
  [
    'The flag is ',
    `${scheme}://flags/#enable-unsafe-webgpu`,
    ', called “Unsafe WebGPU Support”: set it to Enabled and relaunch.',
  ],
  [
    'On Linux, if that is not enough, start the browser with ',
    '--enable-unsafe-webgpu --ozone-platform=x11 --use-angle=vulkan --enable-features=Vulkan,VulkanFromANGLE',
    '.',
  ],
];

export const guides: readonly BrowserGuide[] = [
  {
    family: 'chrome',
    name: 'Chrome',
    support: chromiumSupport,
    steps: chromiumSteps('chrome', 'System'),
  },
  {
    family: 'edge',
    name: 'Edge',
    support: chromiumSupport,
    steps: chromiumSteps('edge', 'System and performance'),
  },
  {
    family: 'firefox',
    name: 'Firefox',
    support: [
      { platform: 'Windows', since: 141 },
      {
        platform: 'macOS',
        since: 147,
        note: 'Apple silicon; 145 on macOS 26. On a Mac with an Intel processor: Firefox Nightly',
      },
      { platform: 'Linux', since: undefined, note: 'Firefox Nightly has it' },
      { platform: 'Android', since: undefined, note: 'Firefox Nightly has it behind the preference' },
    ],
    steps: [
      [
        'In Settings, General, Performance, clear “Use recommended performance settings”, and select “Use hardware acceleration when available”. Restart Firefox.',
      ],
      ['', 'about:support', ' shows the state under “Graphics”, and why a feature is blocked.'],
      ['In ', 'about:config', ', set ', 'dom.webgpu.enabled', ' to true, and restart Firefox.'],
      [
        'If about:support says that the driver is blocked, update it. To try it anyway, set ',
        'gfx.webgpu.ignore-blocklist',
        ' to true.',
      ],
    ],
  },
  {
    family: 'safari',
    name: 'Safari',
    support: [
      { platform: 'macOS', since: 26, note: 'macOS Tahoe 26' },
      { platform: 'iOS and iPadOS', since: 26, note: 'also other browsers there, which use its engine' },
    ],
    steps: [
      [
        'Update the system to 26: Software Update in System Settings, General on a Mac; in Settings, General on an iPhone or iPad.',
      ],
      [
        'Before 26, on a Mac: in Safari, Settings, Advanced, select “Show features for web developers”, then under Feature Flags turn on “WebGPU”.',
      ],
      [
        'Before 26, on an iPhone or iPad: in Settings, Apps, Safari, Advanced, Feature Flags, turn on “WebGPU”.',
      ],
    ],
  },
];

export const guideOf = (family: BrowserFamily): BrowserGuide | undefined =>
  guides.find((guide) => guide.family === family);

/** What a browser of this version can do on its platform, in a sentence. */
export function stateOf({ family, version, platform }: BrowserAtHand): string {
  const guide = guideOf(family);
  const name = guide?.name ?? family;
  const support = guide?.support.find((one) => one.platform === platform);
  if (!support) return `${name} has no WebGPU on this platform.`;
  const { since, note } = support;
  const noteText = note === undefined ? '' : ` (${note})`;
  if (since === undefined) return `No release of ${name} on ${platform} has WebGPU by default: ${note}.`;
  if (version !== undefined && version < since)
    return `${name} on ${platform} has WebGPU since version ${since}${noteText}. This is version ${version}: update ${name}.`;
  return `${name} on ${platform} has WebGPU since version ${since}${noteText}. Here it is turned off, or the GPU or its driver is not supported.`;
}

/** Platforms and versions of a browser in a line. */
export const supportText = ({ support }: BrowserGuide): string =>
  support
    .map(({ platform, since }) => `${platform} ${since === undefined ? 'only in Nightly' : `since ${since}`}`)
    .join(', ');
