import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  samplerFault,
  samplingMembers,
  type Settings,
  samplers,
  searchFromSettings,
  settingsFromSearch,
} from '../../web/demo/settings.ts';

const usual = settingsFromSearch('');

/** Never -0, which a URL cannot represent and which samples like 0. */
const share = (min: number, max: number) => fc.double({ min, max, noNaN: true }).map((value) => value + 0);

const settings: fc.Arbitrary<Settings> = fc.record({
  model: fc.oneof(fc.constant(''), fc.webUrl({ withQueryParameters: true, withFragments: true })),
  system: fc.string({ unit: 'grapheme' }),
  webLlm: fc.string(),
  sampling: fc.record({
    temperature: share(0, 2),
    top_p: share(0.01, 1),
    top_k: fc.nat(1000),
    min_p: share(0, 1),
    repetition_penalty: share(0.5, 2),
    max_tokens: fc.integer({ min: 1, max: 32_768 }),
    seed: fc.option(fc.nat(2 ** 31 - 1), { nil: undefined }),
  }),
});

describe('settings of the demo in its URL', () => {
  it('omits default values', () => {
    expect(searchFromSettings(usual)).toBe('');
  });

  it('restores all set values', () => {
    fc.assert(
      fc.property(settings, (set) => {
        expect(settingsFromSearch(searchFromSettings(set))).toEqual(set);
      }),
    );
  });

  it('ignores values that are out of range or not numbers', () => {
    const found = settingsFromSearch(
      '?temperature=9&top_p=0&top_k=1.5&min_p=x&max_tokens=&seed=-1&repetition_penalty=1e9',
    );
    expect(found.sampling).toEqual(usual.sampling);
  });

  it('states the valid range in the error', () => {
    const topK = samplers.find(({ name }) => name === 'top_k');
    expect(topK && samplerFault(topK, 1001)).toBe('must be from 0 to 1000');
    expect(topK && samplerFault(topK, 0.5)).toBe('must be a whole number');
    expect(topK && samplerFault(topK, 40)).toBeUndefined();
  });
});

describe('sampling in a request', () => {
  it('always has the options whose defaults differ between engines', () => {
    expect(samplingMembers(usual.sampling)).toEqual({ temperature: 0, top_p: 1, max_tokens: 256 });
  });

  it('omits options that web-llm does not have', () => {
    const { sampling } = settingsFromSearch('?top_k=40&min_p=0.1&seed=7');
    expect(samplingMembers(sampling)).toMatchObject({ top_k: 40, min_p: 0.1, seed: 7 });
    expect(samplingMembers(sampling, { forWebLlm: true })).toEqual({
      temperature: 0,
      top_p: 1,
      max_tokens: 256,
      seed: 7,
    });
  });
});
