import { describe, expect, it } from 'vitest';
import { browserAtHand, type BrowserFamily } from '../../web/demo/browser-at-hand.ts';
import { guideOf, stateOf } from '../../web/demo/webgpu-support.ts';
import { webGpuIssue } from '../../web/demo/webgpu-issue.ts';

describe('the WebGPU check of the demo, before anything is loaded', () => {
  it.each([
    ['WebGPU available', { isSecureContext: true, navigator: { gpu: {} } }, undefined],
    ['no WebGPU', { isSecureContext: true, navigator: {} }, 'missing'],
    ['WebGPU switched off', { isSecureContext: true, navigator: { gpu: undefined } }, 'missing'],
    ['an insecure context, which hides WebGPU', { isSecureContext: false, navigator: {} }, 'insecure'],
  ])('%s', (_what, page, lack) => {
    expect(webGpuIssue(page)).toBe(lack);
  });
});

const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)';
const webKit = 'AppleWebKit/605.1.15 (KHTML, like Gecko)';
const chromium = 'AppleWebKit/537.36 (KHTML, like Gecko)';

describe('the browser at hand', () => {
  it.each([
    [
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chromium} Chrome/149.0.0.0 Safari/537.36`,
      'chrome 149 Windows',
    ],
    [
      `Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${chromium} Chrome/149.0.0.0 Safari/537.36`,
      'chrome 149 ChromeOS',
    ],
    [
      `Mozilla/5.0 (X11; Linux x86_64) ${chromium} HeadlessChrome/149.0.0.0 Safari/537.36`,
      'chrome 149 Linux',
    ],
    [
      `Mozilla/5.0 (Linux; Android 10; K) ${chromium} Chrome/149.0.0.0 Mobile Safari/537.36`,
      'chrome 149 Android',
    ],
    [`${mac} ${chromium} Chrome/149.0.0.0 Safari/537.36 Edg/149.0.0.0`, 'edge 149 macOS'],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:150.0) Gecko/20100101 Firefox/150.0',
      'firefox 150 Windows',
    ],
    ['Mozilla/5.0 (Android 15; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0', 'firefox 150 Android'],
    [`${mac} ${webKit} Version/18.5 Safari/605.1.15`, 'safari 18 macOS'],
    [
      `Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) ${webKit} Version/26.1 Mobile/15E148 Safari/604.1`,
      'safari 26 iOS and iPadOS',
    ],
    [
      `Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${webKit} CriOS/149.0.0.0 Mobile/15E148 Safari/604.1`,
      'safari 17 iOS and iPadOS',
    ],
  ])('is named from %s', (userAgent, expected) => {
    const found = browserAtHand({ userAgent, maxTouchPoints: 0 });
    expect(`${found?.family} ${found?.version} ${found?.platform}`).toBe(expected);
  });

  it('is an iPad where a Mac has a touch screen, and undefined where it is unknown', () => {
    const userAgent = `${mac} ${webKit} Version/26.0 Safari/605.1.15`;
    expect(browserAtHand({ userAgent, maxTouchPoints: 5 })?.platform).toBe('iOS and iPadOS');
    expect(browserAtHand({ userAgent: 'Lynx/2.9', maxTouchPoints: 0 })).toBeUndefined();
  });

  it.each([
    ['firefox', 128, 'Windows', 'has WebGPU since version 141. This is version 128: update Firefox.'],
    ['firefox', 150, 'Linux', 'No release of Firefox on Linux has WebGPU by default'],
    ['safari', 26, 'macOS', 'Here it is turned off, or the GPU or its driver is not supported.'],
    ['chrome', 112, 'macOS', 'This is version 112: update Chrome.'],
  ] as const)('says what %s %i on %s can do', (family, version, platform, text) => {
    expect(stateOf({ family, version, platform })).toContain(text);
  });

  it('has instructions in the words of every browser', () => {
    const words = (family: BrowserFamily) => JSON.stringify(guideOf(family)?.steps);
    expect(words('chrome')).toContain('chrome://flags/#enable-unsafe-webgpu');
    expect(words('chrome')).toContain('Use graphics acceleration when available');
    expect(words('edge')).toContain('edge://flags/#enable-unsafe-webgpu');
    expect(words('edge')).toContain('System and performance');
    expect(words('firefox')).toContain('dom.webgpu.enabled');
    expect(words('firefox')).toContain('Use recommended performance settings');
    expect(words('safari')).toContain('Show features for web developers');
    expect(words('safari')).not.toContain('chrome://');
  });
});
